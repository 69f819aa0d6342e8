// Whether a thread that goes round and round still does: for /healthz.
//
// Threads: the watched one begins rounds and rests; any asks. A round costs it one relaxed store.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "common/time.h"
#include "daemon/http_endpoint.h"

namespace maypole::daemon {

class LoopWatch {
 public:
  // Of a loop that is well a round takes milliseconds.
  static constexpr Duration kRoundMax = std::chrono::seconds(10);

  // `loop`, for people: "the agent's loop".
  explicit LoopWatch(std::string loop) : loop_(std::move(loop)) {}

  void BeginRound(TimePoint now) {
    began_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }

  // The next round may be long in coming, and that is well.
  void Rest() { began_.store(kResting, std::memory_order_relaxed); }

  // Not ok while a round takes longer than kRoundMax.
  HttpAnswer Health(TimePoint now) const;

 private:
  static constexpr Duration::rep kResting = 0;

  const std::string loop_;
  std::atomic<Duration::rep> began_ = kResting;
};

}  // namespace maypole::daemon
