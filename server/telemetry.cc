#include "server/telemetry.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

namespace maypole::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric Point(MetricType type, double value, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric point;
  point.label = std::move(labels);
  (type == MetricType::Counter ? point.counter.value : point.gauge.value) = value;
  return point;
}

MetricFamily Family(std::string name, std::string help, MetricType type, double value) {
  return {"maypole_coordinator_" + name, std::move(help), type, {Point(type, value)}};
}

MetricFamily Jobs(const Snapshot& snapshot) {
  MetricFamily family{
      "maypole_coordinator_jobs", "Jobs that are known now, by state", MetricType::Gauge, {}};
  for (JobState state : {JobState::kForming, JobState::kRunning, JobState::kFailed}) {
    const auto count = std::count_if(snapshot.jobs.begin(),
                                     snapshot.jobs.end(),
                                     [state](const JobView& job) { return job.state == state; });
    family.metric.push_back(
        Point(MetricType::Gauge, static_cast<double>(count), {{"state", Name(state)}}));
  }
  return family;
}

MetricFamily Refusals(const MembershipCounters& counters) {
  return {
      "maypole_coordinator_refusals_total",
      "What was refused since the start, by kind",
      MetricType::Counter,
      {Point(
           MetricType::Counter, static_cast<double>(counters.agents_refused), {{"kind", "agent"}}),
       Point(
           MetricType::Counter, static_cast<double>(counters.joins_refused), {{"kind", "join"}})}};
}

// Of rows that were measured; a job has tens of them, and they go with it.
MetricFamily RowRatios(const Snapshot& snapshot) {
  MetricFamily family{"maypole_coordinator_row_time_ratio",
                      "Time of ops over the time that their row of the tuning table predicts",
                      MetricType::Gauge,
                      {}};
  for (const JobView& job : snapshot.jobs) {
    for (const RowMeasured& measured : job.measured) {
      const collective::TuningRow& row = job.epoch.tuning.rows.at(measured.row);
      family.metric.push_back(Point(MetricType::Gauge,
                                    measured.ratio,
                                    {{"job", job.epoch.job},
                                     {"op", std::string(Name(row.collective))},
                                     {"algorithm", std::string(Name(row.algorithm))},
                                     {"from_bytes", std::to_string(row.bytes_begin)}}));
    }
  }
  return family;
}

class Collector final : public prometheus::Collectable {
 public:
  Collector(std::string version, std::function<Snapshot()> snapshot)
      : version_(std::move(version)), snapshot_(std::move(snapshot)) {}

  std::vector<MetricFamily> Collect() const override {
    const Snapshot snapshot = snapshot_();
    const MembershipCounters& counters = snapshot.counters;
    const auto attached = std::count_if(snapshot.nodes.begin(),
                                        snapshot.nodes.end(),
                                        [](const NodeView& node) { return node.connection != 0; });
    const auto counter = [](const char* name, const char* help, std::uint64_t value) {
      return Family(name, help, MetricType::Counter, static_cast<double>(value));
    };
    MetricFamily build{"maypole_build_info",
                       "1, with the release as a label",
                       MetricType::Gauge,
                       {Point(MetricType::Gauge, 1, {{"version", version_}})}};
    return {std::move(build),
            Family("agents_attached",
                   "Agents with a stream to this coordinator",
                   MetricType::Gauge,
                   static_cast<double>(attached)),
            Family("agents_detached",
                   "Agents that are known but have no stream, within their lease",
                   MetricType::Gauge,
                   static_cast<double>(snapshot.nodes.size()) - static_cast<double>(attached)),
            Jobs(snapshot),
            counter("epochs_issued_total", "Epochs issued since the start", counters.epochs_issued),
            counter("jobs_adopted_total",
                    "Running jobs taken over from agents that attached",
                    counters.jobs_adopted),
            counter("jobs_failed_total", "Jobs that failed since the start", counters.jobs_failed),
            Family("links",
                   "Links between nodes that are measured",
                   MetricType::Gauge,
                   static_cast<double>(snapshot.links.size())),
            counter("links_measured_total",
                    "Times that a link was measured since the start",
                    counters.links_measured),
            counter("tables_published_total",
                    "Tuning tables sent to jobs that ran already",
                    counters.tables_published),
            RowRatios(snapshot),
            Refusals(counters)};
  }

 private:
  const std::string version_;
  const std::function<Snapshot()> snapshot_;
};

}  // namespace

std::shared_ptr<prometheus::Collectable> MakeCoordinatorCollector(
    std::string version, std::function<Snapshot()> snapshot) {
  return std::make_shared<Collector>(std::move(version), std::move(snapshot));
}

}  // namespace maypole::server
