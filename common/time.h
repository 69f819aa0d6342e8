// Time as the pure parts see it: an argument, in nanoseconds since an arbitrary start (CLOCK_MONOTONIC in
// production, a virtual clock in the simulator).
#pragma once

#include <chrono>

namespace maypole {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline constexpr TimePoint kNever = TimePoint::max();

}  // namespace maypole
