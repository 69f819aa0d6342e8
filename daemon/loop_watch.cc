#include "daemon/loop_watch.h"

namespace maypole::daemon {

HttpAnswer LoopWatch::Health(TimePoint now) const {
  const Duration::rep began = began_.load(std::memory_order_relaxed);
  const Duration round = began == kResting ? Duration(0) : now.time_since_epoch() - Duration(began);
  if (round <= kRoundMax) {
    return {.ok = true, .text = "alive"};
  }
  return {.ok = false,
          .text = loop_ + " has stood still for " + SecondsText(round) + " (at most " +
                  SecondsText(kRoundMax) + " is well)"};
}

}  // namespace maypole::daemon
