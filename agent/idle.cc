#include "agent/idle.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace maypole::agent {
namespace {

constexpr Duration kSampleEvery = std::chrono::milliseconds(5);

int CoresOfProcess() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

IdlePolicy::IdlePolicy(Duration spin)
    : spin_(spin),
      cores_(CoresOfProcess()),
      loadavg_(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC)) {}

bool IdlePolicy::KeepSpinning(bool busy, TimePoint now) {
  if (spin_ <= Duration(0) || !busy) {
    spinning_ = false;
    return false;
  }
  if (!spinning_) {
    if (!CoreIsFree(now)) {
      return false;
    }
    spinning_ = true;
    spin_until_ = Later(now, spin_);
  }
  return now < spin_until_;
}

// Free: fewer runnable threads on the machine (this one among them) than cores. "0.12 0.20 0.30
// 2/345 6789": the 2.
bool IdlePolicy::CoreIsFree(TimePoint now) {
  if (now - sampled_ < kSampleEvery) {
    return core_was_free_;
  }
  sampled_ = now;
  char text[128] = {};
  const auto bytes = ::pread(loadavg_.get(), text, sizeof(text) - 1, 0);
  const char* slash = bytes > 0 ? std::strchr(text, '/') : nullptr;
  if (slash == nullptr) {
    core_was_free_ = false;
    return false;
  }
  const char* number = slash;
  while (number > text && number[-1] != ' ') {
    --number;
  }
  core_was_free_ = std::atoi(number) < cores_;
  return core_was_free_;
}

}  // namespace maypole::agent
