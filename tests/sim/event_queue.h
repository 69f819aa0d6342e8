// Virtual time: what happens when. One thread; an hour passes as fast as its events can be run.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <utility>

#include "common/time.h"

namespace maypole::sim {

class EventQueue {
 public:
  TimePoint now() const { return now_; }

  void At(TimePoint when, std::function<void()> what) {
    events_.emplace(std::max(when, now_), std::move(what));
  }

  void After(Duration delay, std::function<void()> what) { At(now_ + delay, std::move(what)); }

  // False if nothing is left to happen up to `limit`.
  bool RunNext(TimePoint limit) {
    if (events_.empty() || events_.begin()->first > limit) {
      return false;
    }
    now_ = events_.begin()->first;
    const auto what = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    what();
    return true;
  }

  bool empty() const { return events_.empty(); }

 private:
  TimePoint now_ = TimePoint(std::chrono::hours(1));
  std::multimap<TimePoint, std::function<void()>> events_;
};

// The only source of chance in a run.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t Next() { return engine_(); }

  // lo .. hi, both included.
  std::uint64_t In(std::uint64_t lo, std::uint64_t hi) { return lo + engine_() % (hi - lo + 1); }

  bool Chance(double probability) {
    return static_cast<double>(engine_() >> 11) * 0x1.0p-53 < probability;
  }

  // Mostly near `lo`, now and then near `hi`.
  Duration Delay(Duration lo, Duration hi) {
    const auto span = static_cast<std::uint64_t>((hi - lo).count());
    const std::uint64_t part = Chance(0.05) ? span : span / 20;
    return lo + Duration(static_cast<std::int64_t>(In(0, part)));
  }

  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[In(0, i - 1)]);
    }
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace maypole::sim
