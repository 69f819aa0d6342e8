#include "agent/engine/plan_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "collective/make.h"
#include "common/fnv.h"

namespace maypole::agent {
namespace {

// Of what differs between the ops of a job.
std::uint64_t Hash(collective::Algorithm algorithm,
                   const collective::Shape& shape,
                   const collective::Layout& layout) {
  const std::uint64_t numbers[] = {static_cast<std::uint64_t>(algorithm),
                                   static_cast<std::uint64_t>(layout.collective),
                                   shape.members,
                                   shape.self.value(),
                                   shape.elements,
                                   shape.slice_elements,
                                   layout.elements,
                                   layout.root,
                                   layout.peer,
                                   reinterpret_cast<std::uintptr_t>(layout.placement.get())};
  return Fnv1aOf(layout.counts, Fnv1aOf(numbers));
}

}  // namespace

std::shared_ptr<const Plan> PlanCache::Get(collective::Algorithm algorithm,
                                           const collective::Shape& shape,
                                           const collective::Layout& layout) {
  const std::uint64_t hash = Hash(algorithm, shape, layout);
  const auto [first, last] = by_hash_.equal_range(hash);
  const auto found = std::find_if(first, last, [&](const auto& of_hash) {
    const Entry& entry = *of_hash.second;
    return entry.algorithm == algorithm && entry.shape == shape && entry.layout == layout;
  });
  if (found != last) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().plan;
  }
  collective::Shape made = shape;
  std::vector<collective::Part> parts;
  if (layout.placement != nullptr) {
    parts = PartsAt(shape.self, layout);
    made.parts = InMembers(parts, *layout.placement);
  }
  collective::Schedule schedule = collective::MakeSchedule(algorithm, made);
  entries_.push_front({hash,
                       algorithm,
                       shape,
                       layout,
                       std::make_shared<Plan>(std::move(schedule), std::move(parts))});
  by_hash_.emplace(hash, entries_.begin());
  steps_ += entries_.front().plan->size() + kEntrySteps;
  while (steps_ > steps_max_ && entries_.size() > 1) {
    ForgetOldest();
  }
  return entries_.front().plan;
}

void PlanCache::ForgetOldest() {
  const auto oldest = std::prev(entries_.end());
  const auto [first, last] = by_hash_.equal_range(oldest->hash);
  by_hash_.erase(
      std::find_if(first, last, [&](const auto& entry) { return entry.second == oldest; }));
  steps_ -= oldest->plan->size() + kEntrySteps;
  entries_.erase(oldest);
}

}  // namespace maypole::agent
