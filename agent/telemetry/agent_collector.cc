#include "agent/telemetry/agent_collector.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

namespace maypole::agent {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr double kNanosecond = 1e-9;

constexpr std::array<const char*, kSizeClassCount> kSizeClassNames = {
    "4KiB", "64KiB", "1MiB", "16MiB", "256MiB", "more"};

double Value(const AgentStats::Counter& counter) {
  return static_cast<double>(counter.load(std::memory_order_relaxed));
}

class FamilyBuilder {
 public:
  FamilyBuilder(std::string name, std::string help, MetricType type)
      : family_{"maypole_" + std::move(name), std::move(help), type, {}} {}

  FamilyBuilder&& Add(double value, Labels labels = {}) && {
    Add(value, std::move(labels));
    return std::move(*this);
  }

  void Add(double value, Labels labels = {}) & {
    ClientMetric& point = family_.metric.emplace_back();
    point.label = std::move(labels);
    (family_.type == MetricType::Counter ? point.counter.value : point.gauge.value) = value;
  }

  void Add(const AgentStats::Histogram& histogram, Labels labels) {
    ClientMetric point;
    point.label = std::move(labels);
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < histogram.buckets.size(); ++i) {
      count += histogram.buckets[i].load(std::memory_order_relaxed);
      const double bound = i < kDurationBucketsUs.size() ? kDurationBucketsUs[i] / 1e6
                                                         : std::numeric_limits<double>::infinity();
      point.histogram.bucket.push_back({count, bound});
    }
    point.histogram.sample_count = count;
    point.histogram.sample_sum = Value(histogram.sum_ns) * kNanosecond;
    if (count > 0) {  // classes that never occurred would only cost the scraper
      family_.metric.push_back(std::move(point));
    }
  }

  MetricFamily Take() && { return std::move(family_); }

 private:
  MetricFamily family_;
};

MetricFamily Gauge(const char* name, const char* help, double value) {
  return FamilyBuilder(name, help, MetricType::Gauge).Add(value).Take();
}

MetricFamily Counter(const char* name, const char* help, double value) {
  return FamilyBuilder(name, help, MetricType::Counter).Add(value).Take();
}

std::string OpName(std::size_t kind) {
  return std::string(collective::Name(static_cast<collective::Collective>(kind)));
}

std::string AlgorithmName(std::size_t kind) {
  return std::string(collective::Name(static_cast<collective::Algorithm>(kind)));
}

// "peer_lost"
std::string CodeName(ErrorCode code) {
  std::string name(Name(code));
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

MetricFamily Ops(const AgentStats& stats) {
  FamilyBuilder family("collectives_total", "Ops that ended on this node", MetricType::Counter);
  for (std::size_t op = 0; op < kCollectiveKinds; ++op) {
    for (std::size_t algorithm = 0; algorithm < kAlgorithmKinds; ++algorithm) {
      for (std::size_t ok = 0; ok < 2; ++ok) {
        if (const double value = Value(stats.ops[op][algorithm][ok]); value > 0) {
          family.Add(value,
                     {{"op", OpName(op)},
                      {"algorithm", AlgorithmName(algorithm)},
                      {"result", ok == 1 ? "ok" : "error"}});
        }
      }
    }
  }
  return std::move(family).Take();
}

MetricFamily Payload(const AgentStats& stats) {
  FamilyBuilder family("payload_bytes_total",
                       "Bytes of the tensors of ops that succeeded, once per node",
                       MetricType::Counter);
  for (std::size_t op = 0; op < kCollectiveKinds; ++op) {
    family.Add(Value(stats.payload_bytes[op]), {{"op", OpName(op)}});
  }
  return std::move(family).Take();
}

MetricFamily Durations(const AgentStats& stats) {
  FamilyBuilder family("collective_duration_seconds",
                       "From the start of an op, when all ranks and agents agree, to its end",
                       MetricType::Histogram);
  for (std::size_t op = 0; op < kCollectiveKinds; ++op) {
    for (std::size_t size = 0; size < kSizeClassCount; ++size) {
      family.Add(stats.durations[op][size],
                 {{"op", OpName(op)}, {"size_class", kSizeClassNames[size]}});
    }
  }
  return std::move(family).Take();
}

MetricFamily BusBandwidth(const AgentStats& stats) {
  FamilyBuilder family("bus_bandwidth_bytes_per_second",
                       "2N(P-1)/P / time of the latest ops, moving average",
                       MetricType::Gauge);
  for (std::size_t size = 0; size < kSizeClassCount; ++size) {
    const double value = stats.bus_bandwidth[size].load(std::memory_order_relaxed);
    if (value > 0) {
      family.Add(value, {{"size_class", kSizeClassNames[size]}});
    }
  }
  return std::move(family).Take();
}

MetricFamily Errors(const AgentStats& stats) {
  FamilyBuilder family("errors_total", "Ops that failed, by error code", MetricType::Counter);
  for (std::size_t code = 1; code < kErrorKinds; ++code) {
    family.Add(Value(stats.errors[code]), {{"code", CodeName(static_cast<ErrorCode>(code))}});
  }
  return std::move(family).Take();
}

MetricFamily ByDirection(const char* name,
                         const char* help,
                         const AgentStats::Counter& sent,
                         const AgentStats::Counter& received) {
  FamilyBuilder family(name, help, MetricType::Counter);
  family.Add(Value(sent), {{"direction", "sent"}});
  family.Add(Value(received), {{"direction", "received"}});
  return std::move(family).Take();
}

void AddJobs(const AgentStats& stats, std::vector<MetricFamily>& families) {
  FamilyBuilder members("members", "Agents in the job's epoch", MetricType::Gauge);
  FamilyBuilder epoch("epoch", "Epoch of the job", MetricType::Gauge);
  for (const JobGauge& job : stats.Jobs()) {
    members.Add(job.members, {{"job", job.job}});
    epoch.Add(job.epoch, {{"job", job.job}});
  }
  families.push_back(std::move(members).Take());
  families.push_back(std::move(epoch).Take());
}

class Collector final : public prometheus::Collectable {
 public:
  Collector(std::shared_ptr<const AgentStats> stats, std::string version)
      : stats_(std::move(stats)), version_(std::move(version)) {}

  std::vector<MetricFamily> Collect() const override {
    const AgentStats& s = *stats_;
    std::vector<MetricFamily> families = {
        FamilyBuilder("build_info", "1, with the release as a label", MetricType::Gauge)
            .Add(1, {{"version", version_}})
            .Take(),
        Ops(s),
        Payload(s),
        ByDirection("wire_bytes_total",
                    "Bytes at the transport, headers included",
                    s.sent_bytes,
                    s.received_bytes),
        ByDirection(
            "wire_frames_total", "Frames at the transport", s.sent_frames, s.received_frames),
        Counter("probe_bytes_total",
                "Bytes of measurements of links, in both directions",
                Value(s.probe_bytes)),
        Counter("refused_frames_total",
                "Arrived bytes that were no frame of this release",
                Value(s.refused_frames)),
        Durations(s),
        BusBandwidth(s),
        Errors(s),
        Gauge("ops_in_flight", "Ops that have begun and not ended", Value(s.ops_in_flight)),
        Gauge("sessions", "Connected ranks", Value(s.sessions)),
        Gauge("segment_bytes", "Shared memory given to ranks", Value(s.segment_bytes)),
        Gauge("scratch_bytes", "Memory for partial sums and arrivals", Value(s.scratch_bytes)),
        Gauge("coordinator_attached",
              "1 while the stream to the coordinator is up",
              Value(s.coordinator_attached)),
        Counter("reduce_seconds_total",
                "Time of the summing threads at work",
                Value(s.reduce_ns) * kNanosecond),
        Counter("rank_wait_seconds_total",
                "Time from an op's first submission on this node to its start",
                Value(s.rank_wait_ns) * kNanosecond),
    };
    AddJobs(s, families);
    return families;
  }

 private:
  const std::shared_ptr<const AgentStats> stats_;
  const std::string version_;
};

}  // namespace

std::shared_ptr<prometheus::Collectable> MakeAgentCollector(std::shared_ptr<const AgentStats> stats,
                                                            std::string version) {
  return std::make_shared<Collector>(std::move(stats), std::move(version));
}

}  // namespace maypole::agent
