// Whether to spin for a moment before sleeping. Waking an idle core costs 20-50 us, so a short spin
// pays while an op is in flight, a core is free, and what is waited for comes soon; with more
// runnable threads than cores it costs scheduler slices of 4 ms and more, and behind a slow link
// only processor time (docs/performance.md).
//
// Threads: confined.
#pragma once

#include <cstdint>

#include "common/time.h"
#include "common/unique_fd.h"

namespace maypole::agent {

// Whether spins paid of late: something came before they ended.
class SpinHistory {
 public:
  // False if too few did; now and then true all the same, to see whether that has changed.
  bool IsWorthATry();
  void Add(bool paid);

 private:
  double share_ = 1;  // that paid, of the last ones most
  std::uint32_t left_out_ = 0;
};

class IdlePolicy {
 public:
  // `spin` <= 0: never.
  explicit IdlePolicy(Duration spin);

  // Called whenever nothing was to be done. True: look again; false: sleep.
  bool KeepSpinning(bool busy, TimePoint now);

  // Something was done.
  void Reset();

 private:
  enum class State : std::uint8_t { kFresh, kSpinning, kToSleep };

  bool CoreIsFree(TimePoint now);

  Duration spin_;
  int cores_ = 1;
  UniqueFd loadavg_;
  State state_ = State::kFresh;
  SpinHistory history_;
  TimePoint spin_until_{};
  TimePoint sampled_{};
  bool core_was_free_ = false;
};

}  // namespace maypole::agent
