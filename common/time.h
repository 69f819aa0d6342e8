// Time as the pure parts see it: an argument, in nanoseconds since an arbitrary start
// (CLOCK_MONOTONIC in production, a virtual clock in the simulator).
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace maypole {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline constexpr TimePoint kNever = TimePoint::max();

// kNever if it is too far away to be counted. `duration` >= 0.
constexpr TimePoint Later(TimePoint now, Duration duration) {
  return duration < kNever - now ? now + duration : kNever;
}

// For people: "25 s", "3.0 s", "1.5 ms".
inline std::string SecondsText(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  char text[32];
  if (seconds != 0 && seconds < 0.1) {
    std::snprintf(text, sizeof(text), "%.3g ms", seconds * 1e3);
  } else {
    std::snprintf(text, sizeof(text), seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  }
  return text;
}

}  // namespace maypole
