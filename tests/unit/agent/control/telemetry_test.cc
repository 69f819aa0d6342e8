#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include "agent/telemetry/agent_collector.h"

namespace maypole::agent {
namespace {

using collective::Algorithm;
using collective::Collective;
using testing::HasSubstr;
using testing::Not;

std::string Text(const std::shared_ptr<AgentStats>& stats) {
  return prometheus::TextSerializer().Serialize(MakeAgentCollector(stats, "1.0")->Collect());
}

TEST(SizeClass, BoundsAreInclusive) {
  EXPECT_EQ(SizeClassOf(0), 0u);
  EXPECT_EQ(SizeClassOf(4096), 0u);
  EXPECT_EQ(SizeClassOf(4097), 1u);
  EXPECT_EQ(SizeClassOf(256ull << 20), kSizeClassCount - 2);
  EXPECT_EQ(SizeClassOf((256ull << 20) + 1), kSizeClassCount - 1);
  EXPECT_EQ(SizeClassOf(~0ull), kSizeClassCount - 1);
}

TEST(AgentTelemetry, CountsAnOpByItsLabels) {
  auto stats = std::make_shared<AgentStats>();
  const OpOutcome op{.collective = Collective::kAllReduce,
                     .algorithm = Algorithm::kRing,
                     .code = ErrorCode::kOk,
                     .bytes = 1'000'000,
                     .members = 4,
                     .duration = std::chrono::milliseconds(10)};
  stats->OnOpDone(op);
  stats->OnOpDone(op);
  const std::string text = Text(stats);
  const std::string op_name(Name(Collective::kAllReduce));
  const std::string ring(Name(Algorithm::kRing));
  EXPECT_THAT(text,
              HasSubstr("maypole_collectives_total{op=\"" + op_name + "\",algorithm=\"" + ring +
                        "\",result=\"ok\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("maypole_payload_bytes_total{op=\"" + op_name + "\"} 2000000\n"));
  EXPECT_THAT(text,
              HasSubstr("maypole_bus_bandwidth_bytes_per_second{size_class=\"1MiB\"} 150000000\n"));
  const std::string histogram = "maypole_collective_duration_seconds_";
  const std::string labels = "{op=\"" + op_name + "\",size_class=\"1MiB\"";
  EXPECT_THAT(text, HasSubstr(histogram + "count" + labels + "} 2\n"));
  EXPECT_THAT(text, HasSubstr(histogram + "sum" + labels + "} 0.02\n"));
  EXPECT_THAT(text, HasSubstr(histogram + "bucket" + labels + ",le=\"0.005\"} 0\n"));
  EXPECT_THAT(text, HasSubstr(histogram + "bucket" + labels + ",le=\"0.01\"} 2\n"));
  EXPECT_THAT(text, HasSubstr(histogram + "bucket" + labels + ",le=\"+Inf\"} 2\n"));
}

TEST(AgentTelemetry, DurationsBeyondTheLastBucketCountAsInfinity) {
  auto stats = std::make_shared<AgentStats>();
  stats->OnOpDone({.duration = std::chrono::seconds(11)});
  const std::string text = Text(stats);
  EXPECT_THAT(text, HasSubstr("le=\"10\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("le=\"+Inf\"} 1\n"));
}

TEST(AgentTelemetry, AFailedOpCountsAsAnErrorAndNotAsPayload) {
  auto stats = std::make_shared<AgentStats>();
  stats->OnOpDone({.code = ErrorCode::kPeerLost,
                   .bytes = 1000,
                   .members = 2,
                   .duration = std::chrono::seconds(1)});
  const std::string text = Text(stats);
  EXPECT_THAT(text, HasSubstr("result=\"error\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("maypole_errors_total{code=\"peer_lost\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("maypole_bus_bandwidth_bytes_per_second{")));
  EXPECT_THAT(text, Not(HasSubstr("maypole_collective_duration_seconds_count")));
}

TEST(AgentTelemetry, OneMemberHasNoBusBandwidth) {
  auto stats = std::make_shared<AgentStats>();
  stats->OnOpDone({.bytes = 1000, .members = 1, .duration = std::chrono::seconds(1)});
  EXPECT_THAT(Text(stats), Not(HasSubstr("maypole_bus_bandwidth_bytes_per_second{")));
}

TEST(AgentTelemetry, ShowsGaugesAndTimesInBaseUnits) {
  auto stats = std::make_shared<AgentStats>();
  AgentStats::Set(stats->sessions, 3);
  AgentStats::Set(stats->sent_bytes, 7);
  AgentStats::Add(stats->reduce_ns, 2'500'000'000);
  stats->SetJobs({{.job = "train", .members = 4, .epoch = 9}});
  std::string text = Text(stats);
  for (const char* line : {"maypole_sessions 3\n",
                           "maypole_wire_bytes_total{direction=\"sent\"} 7\n",
                           "maypole_reduce_seconds_total 2.5\n",
                           "maypole_members{job=\"train\"} 4\n",
                           "maypole_epoch{job=\"train\"} 9\n",
                           "maypole_build_info{version=\"1.0\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  stats->SetJobs({});
  EXPECT_THAT(Text(stats), Not(HasSubstr("train"))) << "a job that ended leaves no series behind";
}

TEST(AgentTelemetry, SeriesStayBoundedWhateverHappens) {
  auto stats = std::make_shared<AgentStats>();
  for (std::size_t kind = 0; kind < kCollectiveKinds; ++kind) {
    for (std::size_t algorithm = 0; algorithm < kAlgorithmKinds; ++algorithm) {
      for (std::size_t code = 0; code < kErrorKinds; ++code) {
        for (std::uint64_t bytes = 1; bytes < 1ull << 40; bytes *= 4) {
          stats->OnOpDone({.collective = static_cast<Collective>(kind),
                           .algorithm = static_cast<Algorithm>(algorithm),
                           .code = static_cast<ErrorCode>(code),
                           .bytes = bytes,
                           .members = 4,
                           .duration = std::chrono::microseconds(bytes % 1000 + 1)});
        }
      }
    }
  }
  std::istringstream lines(Text(stats));
  std::set<std::string> series;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('#')) {
      const std::string name = line.substr(0, line.rfind(' '));
      EXPECT_THAT(line, testing::MatchesRegex(R"(maypole_[a-z_]+(\{.*\})? [0-9.e+-]+)"));
      EXPECT_TRUE(series.insert(name).second) << name << " stands twice";
    }
  }
  EXPECT_LT(series.size(), 1600u);
}

}  // namespace
}  // namespace maypole::agent
