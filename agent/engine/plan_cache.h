// Plans by shape, so that the steps of a training loop are made once. Bounded: the least recently
// used go.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "agent/engine/plan.h"
#include "collective/parts.h"
#include "collective/schedule.h"

namespace maypole::agent {

class PlanCache {
 public:
  explicit PlanCache(std::size_t steps_max) : steps_max_(steps_max) {}

  // `layout` says what the parts of `shape` are, which is given without them.
  std::shared_ptr<const Plan> Get(collective::Algorithm algorithm,
                                  const collective::Shape& shape,
                                  const collective::Layout& layout = {});

 private:
  struct Entry {
    collective::Algorithm algorithm;
    collective::Shape shape;  // without parts, which can be many
    collective::Layout layout;
    std::shared_ptr<const Plan> plan;
  };

  std::size_t steps_max_;
  std::size_t steps_ = 0;
  std::list<Entry> entries_;  // most recently used first; a training job has tens
};

}  // namespace maypole::agent
