// Whether to spin for a moment before sleeping. Waking an idle core costs 20-50 us, so a short spin
// pays while an op is in flight and a core is free; with more runnable threads than cores it costs
// scheduler slices of 4 ms and more (docs/performance.md).
//
// Threads: confined.
#pragma once

#include <cstdint>

#include "common/time.h"
#include "common/unique_fd.h"

namespace maypole::agent {

class IdlePolicy {
 public:
  // `spin` <= 0: never.
  explicit IdlePolicy(Duration spin);

  // Called whenever nothing was to be done. True: look again; false: sleep.
  bool KeepSpinning(bool busy, TimePoint now);

  // Something was done.
  void Reset() { spinning_ = false; }

 private:
  bool CoreIsFree(TimePoint now);

  Duration spin_;
  int cores_ = 1;
  UniqueFd loadavg_;
  bool spinning_ = false;
  TimePoint spin_until_{};
  TimePoint sampled_{};
  bool core_was_free_ = false;
};

}  // namespace maypole::agent
