#include "agent/engine/plan_cache.h"

#include <algorithm>

#include "collective/make.h"

namespace maypole::agent {

std::shared_ptr<const Plan> PlanCache::Get(collective::Algorithm algorithm,
                                           const collective::Shape& shape) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.algorithm == algorithm && entry.shape == shape;
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().plan;
  }
  entries_.push_front(
      {algorithm, shape, std::make_shared<Plan>(collective::MakeSchedule(algorithm, shape))});
  steps_ += entries_.front().plan->size();
  while (steps_ > steps_max_ && entries_.size() > 1) {
    steps_ -= entries_.back().plan->size();
    entries_.pop_back();
  }
  return entries_.front().plan;
}

}  // namespace maypole::agent
