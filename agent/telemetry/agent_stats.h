// What the agent counts about itself. The loop writes with relaxed atomics (a few nanoseconds per
// op); the HTTP endpoint's threads read through agent_collector.h.
//
// Threads: any may call anything. Values of one scrape need not belong to one instant.
// Labels are bounded by design: enums, a few size classes, and the jobs that run now.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "collective/schedule.h"
#include "common/error_code.h"
#include "common/time.h"

namespace maypole::agent {

// By bytes of the tensor: up to 4 KiB, 64 KiB, 1 MiB, 16 MiB, 256 MiB, and more.
inline constexpr std::array<std::uint64_t, 5> kSizeClassBytes = {
    4ull << 10, 64ull << 10, 1ull << 20, 16ull << 20, 256ull << 20};
inline constexpr std::size_t kSizeClassCount = kSizeClassBytes.size() + 1;

// Upper bounds in microseconds; one more bucket beyond.
inline constexpr std::array<std::uint32_t, 19> kDurationBucketsUs = {10,
                                                                     25,
                                                                     50,
                                                                     100,
                                                                     250,
                                                                     500,
                                                                     1'000,
                                                                     2'500,
                                                                     5'000,
                                                                     10'000,
                                                                     25'000,
                                                                     50'000,
                                                                     100'000,
                                                                     250'000,
                                                                     500'000,
                                                                     1'000'000,
                                                                     2'500'000,
                                                                     5'000'000,
                                                                     10'000'000};

inline constexpr std::size_t kCollectiveKinds = collective::kCollectiveCount;
inline constexpr std::size_t kAlgorithmKinds = collective::kAlgorithms.size() + 1;
inline constexpr std::size_t kErrorKinds = 9;

std::size_t SizeClassOf(std::uint64_t bytes);

// One op that has come to its end on this node (not once per rank).
struct OpOutcome {
  collective::Collective collective = collective::Collective::kAllReduce;
  collective::Algorithm algorithm = collective::Algorithm::kRing;
  ErrorCode code = ErrorCode::kOk;
  std::uint64_t bytes = 0;    // of the tensor
  std::uint32_t members = 1;  // P, for the bus bandwidth (collective/cost.h)
  Duration duration{0};       // from the start of the op, when all agree, to its end
};

struct JobGauge {
  std::string job;
  std::uint32_t members = 0;
  std::uint32_t epoch = 0;
};

class AgentStats {
 public:
  using Counter = std::atomic<std::uint64_t>;

  struct Histogram {
    std::array<Counter, kDurationBucketsUs.size() + 1> buckets{};  // not cumulative
    Counter sum_ns{0};
  };

  void OnOpDone(const OpOutcome& outcome);

  // Replaces what was known; called when an epoch comes or goes.
  void SetJobs(std::vector<JobGauge> jobs);
  std::vector<JobGauge> Jobs() const;

  static void Add(Counter& counter, std::uint64_t amount) {
    counter.fetch_add(amount, std::memory_order_relaxed);
  }

  static void Set(Counter& gauge, std::uint64_t value) {
    gauge.store(value, std::memory_order_relaxed);
  }

  // Set by the loop, from the counters of its parts.
  Counter sent_bytes{0};  // at the transport, headers included
  Counter received_bytes{0};
  Counter sent_frames{0};
  Counter received_frames{0};
  Counter refused_frames{0};
  Counter probe_bytes{0};  // of both directions
  Counter ops_in_flight{0};
  Counter sessions{0};
  Counter segment_bytes{0};
  Counter scratch_bytes{0};
  Counter coordinator_attached{0};  // 0 or 1
  // Added to by the loop.
  Counter reduce_ns{0};     // of the summing threads
  Counter rank_wait_ns{0};  // from the first submission here to the start, once per op

  // Written by OnOpDone.
  std::array<std::array<std::array<Counter, 2>, kAlgorithmKinds>, kCollectiveKinds>
      ops{};  // [][][ok]
  std::array<Counter, kCollectiveKinds> payload_bytes{};
  std::array<std::array<Histogram, kSizeClassCount>, kCollectiveKinds> durations{};
  std::array<std::atomic<double>, kSizeClassCount>
      bus_bandwidth{};  // bytes per second, moving average
  std::array<Counter, kErrorKinds> errors{};

 private:
  mutable std::mutex jobs_mutex_;
  std::vector<JobGauge> jobs_;
};

}  // namespace maypole::agent
