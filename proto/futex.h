// How the two sides of a segment sleep on a word and wake each other. Shared futexes: the two
// processes map the word at different addresses.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "common/time.h"

namespace maypole {

// Returns when woken, at once if `word` is not `expected`, after `timeout`, or for no reason.
// `timeout` >= 0.
inline void FutexWait(const std::atomic<std::uint32_t>& word,
                      std::uint32_t expected,
                      Duration timeout) {
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(timeout.count() / 1'000'000'000);
  limit.tv_nsec = static_cast<long>(timeout.count() % 1'000'000'000);
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

inline void FutexWakeAll(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace maypole
