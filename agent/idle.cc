#include "agent/idle.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace maypole::agent {
namespace {

constexpr Duration kSampleEvery = std::chrono::milliseconds(5);
// A spin of 20 us that comes to nothing costs about a quarter of what one that pays saves.
constexpr double kWorthwhile = 0.2;
constexpr double kWeight = 1.0 / 16;
constexpr std::uint32_t kLeftOutMax = 64;

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

bool SpinHistory::IsWorthATry() {
  if (share_ >= kWorthwhile || ++left_out_ >= kLeftOutMax) {
    left_out_ = 0;
    return true;
  }
  return false;
}

void SpinHistory::Add(bool paid) {
  share_ += ((paid ? 1 : 0) - share_) * kWeight;
}

bool IdlePolicy::KeepSpinning(bool busy, TimePoint now) {
  if (spin_ <= Duration(0) || !busy) {
    state_ = State::kFresh;
    return false;
  }
  if (state_ == State::kFresh) {
    const bool spins = CoreIsFree(now) && history_.IsWorthATry();
    state_ = spins ? State::kSpinning : State::kToSleep;
    spin_until_ = now + spin_;
  }
  if (state_ == State::kSpinning && now >= spin_until_) {
    state_ = State::kToSleep;
    history_.Add(false);
  }
  return state_ == State::kSpinning;
}

void IdlePolicy::Reset() {
  if (state_ == State::kSpinning) {
    history_.Add(true);
  }
  state_ = State::kFresh;
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
