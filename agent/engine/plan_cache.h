// Plans by shape, so that the steps of a training loop are made once. Bounded, by steps and by what
// a plan takes besides: the least recently used go.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

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
  // What an entry without steps takes, in steps.
  static constexpr std::size_t kEntrySteps = 64;

  struct Entry {
    std::uint64_t hash;
    collective::Algorithm algorithm;
    collective::Shape shape;  // without parts, which can be many
    collective::Layout layout;
    std::shared_ptr<const Plan> plan;
  };

  void ForgetOldest();

  std::size_t steps_max_;
  std::size_t steps_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_multimap<std::uint64_t, std::list<Entry>::iterator> by_hash_;
};

}  // namespace maypole::agent
