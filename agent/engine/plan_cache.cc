#include "agent/engine/plan_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "collective/make.h"

namespace maypole::agent {

std::shared_ptr<const Plan> PlanCache::Get(collective::Algorithm algorithm,
                                           const collective::Shape& shape,
                                           const collective::Layout& layout) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.algorithm == algorithm && entry.shape == shape && entry.layout == layout;
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().plan;
  }
  collective::Shape made = shape;
  std::vector<collective::Part> parts;
  if (layout.placement != nullptr) {
    parts = PartsOf(layout);
    made.parts = InMembers(parts, *layout.placement);
  }
  collective::Schedule schedule = collective::MakeSchedule(algorithm, made);
  // An all-to-all has the square of the ranks in parts, most of them between others.
  const auto is_here = [&](std::uint32_t rank) {
    return rank == collective::kEverybody || (*layout.placement)[rank] == shape.self.value();
  };
  std::erase_if(parts, [&](const collective::Part& part) {
    return !is_here(part.from) && !is_here(part.to);
  });
  entries_.push_front(
      {algorithm, shape, layout, std::make_shared<Plan>(std::move(schedule), std::move(parts))});
  steps_ += entries_.front().plan->size();
  while (steps_ > steps_max_ && entries_.size() > 1) {
    steps_ -= entries_.back().plan->size();
    entries_.pop_back();
  }
  return entries_.front().plan;
}

}  // namespace maypole::agent
