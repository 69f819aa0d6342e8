#include "agent/telemetry/agent_stats.h"

#include <algorithm>
#include <utility>

#include "collective/cost.h"
#include "common/check.h"

namespace maypole::agent {
namespace {

// Weight of the newest op: the average follows a change within some 10 ops.
constexpr double kNewestWeight = 0.2;

double BusBandwidth(const OpOutcome& outcome) {
  const double seconds = std::chrono::duration<double>(outcome.duration).count();
  return seconds <= 0 ? 0
                      : collective::BusFactor(outcome.collective, outcome.members) *
                            static_cast<double>(outcome.bytes) / seconds;
}

void Observe(AgentStats::Histogram& histogram, Duration duration) {
  const auto microseconds =
      std::chrono::ceil<std::chrono::microseconds>(std::max(duration, Duration{0})).count();
  const auto bucket = std::lower_bound(kDurationBucketsUs.begin(),
                                       kDurationBucketsUs.end(),
                                       static_cast<std::uint64_t>(microseconds));
  const auto index = static_cast<std::size_t>(bucket - kDurationBucketsUs.begin());
  AgentStats::Add(histogram.buckets[index], 1);
  AgentStats::Add(histogram.sum_ns,
                  static_cast<std::uint64_t>(std::max(duration, Duration{0}).count()));
}

}  // namespace

std::size_t SizeClassOf(std::uint64_t bytes) {
  return static_cast<std::size_t>(
      std::lower_bound(kSizeClassBytes.begin(), kSizeClassBytes.end(), bytes) -
      kSizeClassBytes.begin());
}

void AgentStats::OnOpDone(const OpOutcome& outcome) {
  const auto kind = static_cast<std::size_t>(outcome.collective);
  const auto algorithm = static_cast<std::size_t>(outcome.algorithm);
  const auto code = static_cast<std::size_t>(outcome.code);
  MAYPOLE_CHECK(kind < kCollectiveKinds && algorithm < kAlgorithmKinds && code < kErrorKinds);
  const bool ok = outcome.code == ErrorCode::kOk;
  Add(ops[kind][algorithm][ok ? 1 : 0], 1);
  if (!ok) {
    Add(errors[code], 1);
    return;
  }
  const std::size_t size_class = SizeClassOf(outcome.bytes);
  Add(payload_bytes[kind], outcome.bytes);
  Observe(durations[kind][size_class], outcome.duration);
  if (const double now = BusBandwidth(outcome); now > 0) {
    // Lost updates between two writers would only slow the average down, but there is one writer
    // anyway: the loop.
    std::atomic<double>& average = bus_bandwidth[size_class];
    const double before = average.load(std::memory_order_relaxed);
    average.store(before == 0 ? now : before + kNewestWeight * (now - before),
                  std::memory_order_relaxed);
  }
}

void AgentStats::SetJobs(std::vector<JobGauge> jobs) {
  std::lock_guard lock(jobs_mutex_);
  jobs_ = std::move(jobs);
}

std::vector<JobGauge> AgentStats::Jobs() const {
  std::lock_guard lock(jobs_mutex_);
  return jobs_;
}

}  // namespace maypole::agent
