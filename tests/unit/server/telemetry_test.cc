#include "server/telemetry.h"

#include <gmock/gmock.h>
#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

namespace maypole::server {
namespace {

using testing::HasSubstr;

TEST(CoordinatorTelemetry, ShowsWhatTheSnapshotHolds) {
  Snapshot snapshot;
  snapshot.nodes = {{.node = "a", .connection = 1}, {.node = "b", .connection = 0}};
  snapshot.jobs.resize(2);
  snapshot.jobs[0].state = JobState::kRunning;
  snapshot.jobs[1].state = JobState::kForming;
  snapshot.counters = {.agents_refused = 2,
                       .joins_refused = 3,
                       .epochs_issued = 4,
                       .jobs_adopted = 5,
                       .jobs_failed = 6,
                       .links_measured = 7,
                       .tables_published = 8};
  snapshot.links.resize(3);
  snapshot.jobs[0].epoch.job = "train";
  snapshot.jobs[0].epoch.tuning.rows = {{.bytes_begin = 4096}};
  snapshot.jobs[0].measured = {{.row = 0, .ops = 16, .ratio = 1.25}};
  const auto collector = MakeCoordinatorCollector("1.0", [&] { return snapshot; });
  const std::string text = prometheus::TextSerializer().Serialize(collector->Collect());
  for (const char* line : {"maypole_build_info{version=\"1.0\"} 1\n",
                           "maypole_coordinator_agents_attached 1\n",
                           "maypole_coordinator_agents_detached 1\n",
                           "maypole_coordinator_jobs{state=\"forming\"} 1\n",
                           "maypole_coordinator_jobs{state=\"running\"} 1\n",
                           "maypole_coordinator_jobs{state=\"failed\"} 0\n",
                           "maypole_coordinator_epochs_issued_total 4\n",
                           "maypole_coordinator_jobs_adopted_total 5\n",
                           "maypole_coordinator_jobs_failed_total 6\n",
                           "maypole_coordinator_links 3\n",
                           "maypole_coordinator_links_measured_total 7\n",
                           "maypole_coordinator_tables_published_total 8\n",
                           "maypole_coordinator_row_time_ratio{job=\"train\",op=\"all_reduce\","
                           "algorithm=\"ring\",from_bytes=\"4096\"} 1.25\n",
                           "maypole_coordinator_refusals_total{kind=\"agent\"} 2\n",
                           "maypole_coordinator_refusals_total{kind=\"join\"} 3\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace maypole::server
