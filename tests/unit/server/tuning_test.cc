// Links are measured, tables follow from them, and from what ops really took.

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

#include "tests/unit/server/cluster.h"

namespace maypole::server {
namespace {

using collective::Algorithm;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr collective::LinkModel kLink = {
    .latency_seconds = 30e-6, .bytes_per_second = 1.25e8, .message_seconds = 3e-6};

MembershipOptions Probing() {
  return {.version = "1.0", .agent_lease = kLease, .probe_links = true};
}

struct ProbingCluster : Cluster {
  ProbingCluster() : Cluster(Probing()) {}

  explicit ProbingCluster(MembershipOptions options) : Cluster(std::move(options)) {}

  // Answers all probes of which somebody was told to measure, and those that follow.
  std::size_t AnswerProbes(Survey::Result result = Survey::Result::kOk,
                           const collective::LinkModel& link = kLink) {
    std::size_t count = 0;
    while (answered_ < all.size()) {
      if (const auto* probe = std::get_if<SendProbe>(&all[answered_++]);
          probe != nullptr && probe->measures) {
        const SendProbe asked = *probe;
        ++count;
        Do(LinkMeasured{asked.connection, asked.id, result, link, 30});
      }
    }
    return count;
  }

  // What was sent to `connection` since the beginning.
  template <typename T>
  std::vector<T> Ever(ConnectionId connection) const {
    std::vector<T> found;
    for (const Action& action : all) {
      if (const T* match = std::get_if<T>(&action);
          match != nullptr && match->connection == connection) {
        found.push_back(*match);
      }
    }
    return found;
  }

  std::size_t answered_ = 0;
};

const collective::TuningRow& RowAt(const collective::TuningTable& table, std::uint64_t bytes) {
  return *table.Find(collective::Collective::kAllReduce, bytes);
}

TEST(Links, AreMeasuredAsSoonAsTwoAgentsAreThere) {
  ProbingCluster cluster;
  const ConnectionId a = cluster.Attach("a");
  EXPECT_EQ(cluster.CountOfLast<SendProbe>(), 0u);
  const ConnectionId b = cluster.Attach("b");
  const auto answers = cluster.Sent<SendProbe>(b);
  const auto measures = cluster.Sent<SendProbe>(a);
  ASSERT_THAT(answers, SizeIs(1));
  ASSERT_THAT(measures, SizeIs(1));
  EXPECT_TRUE(measures[0].measures);
  EXPECT_FALSE(answers[0].measures);
  EXPECT_EQ(measures[0].id, answers[0].id);
  EXPECT_EQ(measures[0].peer.node, "b");
  EXPECT_EQ(measures[0].peer.data_address, "address-b");
  EXPECT_EQ(answers[0].peer.node, "a");
  cluster.AnswerProbes();
  const Snapshot view = cluster.View();
  ASSERT_THAT(view.links, SizeIs(1));
  EXPECT_EQ(view.links[0].a, "a");
  EXPECT_EQ(view.links[0].b, "b");
  EXPECT_EQ(view.links[0].model.bytes_per_second, kLink.bytes_per_second);
  EXPECT_EQ(view.links[0].samples, 30u);
}

TEST(Links, AJobWaitsForThemAndGetsATable) {
  ProbingCluster cluster;
  const ConnectionId a = cluster.Attach("a");
  const ConnectionId b = cluster.Attach("b");
  cluster.Join(a, 0, 2);
  cluster.Join(b, 1, 2);
  EXPECT_THAT(cluster.Ever<SendEpoch>(a), IsEmpty());
  EXPECT_THAT(cluster.View().jobs[0].reason, HasSubstr("links between their nodes"));
  cluster.AnswerProbes();
  const auto epochs = cluster.Ever<SendEpoch>(a);
  ASSERT_THAT(epochs, SizeIs(1));
  EXPECT_EQ(epochs[0].epoch, cluster.Ever<SendEpoch>(b).at(0).epoch);
  EXPECT_EQ(epochs[0].epoch.tuning.version, 1u);
  EXPECT_EQ(RowAt(epochs[0].epoch.tuning, 64 << 20).algorithm, Algorithm::kRing);
}

TEST(Links, OfEachLevelAreReported) {
  ProbingCluster cluster;
  std::vector<ConnectionId> agents;
  for (const char* node : {"a", "b", "c", "d"}) {
    AgentAttached hello = cluster.Hello(node);
    hello.labels = {{"rack", *node < 'c' ? "1" : "2"}};
    agents.push_back(cluster.Attach(hello));
  }
  for (std::uint32_t rank = 0; rank < agents.size(); ++rank) {
    cluster.Join(agents[rank], rank, 4);
  }
  cluster.AnswerProbes();
  const JobView job = cluster.View().jobs.at(0);
  ASSERT_THAT(job.epoch.levels, SizeIs(2));
  ASSERT_THAT(job.level_costs, SizeIs(2));
  EXPECT_DOUBLE_EQ(job.level_costs[0].link.latency_seconds, kLink.latency_seconds);
}

TEST(Links, AJobDoesNotWaitForLong) {
  ProbingCluster cluster;
  const ConnectionId a = cluster.Attach("a");
  const ConnectionId b = cluster.Attach("b");
  cluster.Join(a, 0, 2);
  cluster.Join(b, 1, 2);
  cluster.Pass(milliseconds(900));
  EXPECT_THAT(cluster.Ever<SendEpoch>(a), IsEmpty());
  cluster.Pass(milliseconds(200));
  ASSERT_THAT(cluster.Ever<SendEpoch>(a), SizeIs(1));
  EXPECT_THAT(cluster.Ever<SendEpoch>(a)[0].epoch.tuning.rows, IsEmpty());
  // They are known a little later, and the job gets its table then.
  cluster.AnswerProbes();
  for (const ConnectionId member : {a, b}) {
    const auto tables = cluster.Ever<SendTuning>(member);
    ASSERT_THAT(tables, SizeIs(1));
    EXPECT_EQ(tables[0].tuning.version, 2u);
    EXPECT_FALSE(tables[0].tuning.rows.empty());
  }
  EXPECT_EQ(cluster.View().counters.tables_published, 1u);
}

TEST(Links, ThatCannotBeAreNotTakenForMeasured) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const collective::LinkModel impossible[] = {
      {.latency_seconds = 1e-5, .bytes_per_second = std::numeric_limits<double>::denorm_min()},
      {.latency_seconds = 1e-5, .bytes_per_second = 999},
      {.latency_seconds = 1e-5, .bytes_per_second = 1.1e13},
      {.latency_seconds = 61, .bytes_per_second = 1e9},
      {.latency_seconds = 1e-5, .bytes_per_second = 1e9, .message_seconds = kInfinity},
      {.latency_seconds = -1e-5, .bytes_per_second = 1e9},
      {.latency_seconds = kInfinity - kInfinity, .bytes_per_second = 1e9}};
  for (const collective::LinkModel& link : impossible) {
    ProbingCluster cluster;
    const ConnectionId a = cluster.Attach("a");
    cluster.Join(a, 0, 2);
    cluster.Join(cluster.Attach("b"), 1, 2);
    EXPECT_EQ(cluster.AnswerProbes(Survey::Result::kOk, link), 1u);
    EXPECT_THAT(cluster.View().links, IsEmpty());
    const auto epochs = cluster.Ever<SendEpoch>(a);
    ASSERT_THAT(epochs, SizeIs(1));
    EXPECT_THAT(epochs[0].epoch.members, SizeIs(2));
  }
}

TEST(Links, OfASmallJobAreMeasuredInALargeClusterToo) {
  ProbingCluster cluster;
  std::vector<ConnectionId> nodes;
  for (int i = 0; i < 200; ++i) {
    nodes.push_back(cluster.Attach("n" + std::to_string(1000 + i)));
  }
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    cluster.Join(nodes[25 * rank], rank, 8);
  }
  cluster.AnswerProbes();
  const auto epochs = cluster.Ever<SendEpoch>(nodes[0]);
  ASSERT_THAT(epochs, SizeIs(1));
  EXPECT_FALSE(epochs[0].epoch.tuning.rows.empty());
}

TEST(Links, AJobOfOneNodeWaitsForNobody) {
  ProbingCluster cluster;
  const ConnectionId a = cluster.Attach("a");
  cluster.Attach("b");
  cluster.Join(a, 0, 1);
  EXPECT_THAT(cluster.Sent<SendEpoch>(a), SizeIs(1));
}

TEST(Links, OfAnAgentThatIsStartedAnewAreMeasuredAnew) {
  ProbingCluster cluster;
  cluster.Attach("a");
  const ConnectionId b = cluster.Attach("b");
  EXPECT_EQ(cluster.AnswerProbes(), 1u);
  cluster.Do(AgentDetached{b});
  cluster.Attach("b");
  EXPECT_EQ(cluster.AnswerProbes(), 0u) << "the same process with a new stream";
  cluster.Do(AgentDetached{b + 1});
  cluster.Attach(cluster.Hello("b", 2));
  EXPECT_EQ(cluster.AnswerProbes(), 1u);
}

TEST(Links, AreMeasuredAnewOnRequest) {
  ProbingCluster cluster;
  for (const char* node : {"a", "b", "c"}) {
    cluster.Attach(node);
  }
  EXPECT_EQ(cluster.AnswerProbes(), 3u);
  cluster.Do(LinksWanted{});
  EXPECT_EQ(cluster.AnswerProbes(), 3u);
}

TEST(Links, ValuesThatCannotBeAreNotTaken) {
  ProbingCluster cluster;
  cluster.Attach("a");
  cluster.Attach("b");
  cluster.AnswerProbes(Survey::Result::kOk, {.latency_seconds = -1, .bytes_per_second = 1});
  EXPECT_THAT(cluster.View().links, IsEmpty());
}

// ---- what ops really took

struct LearningJob : ProbingCluster {
  LearningJob() {
    for (const char* node : {"a", "b", "c", "d"}) {
      connections.push_back(Attach(node));
    }
    AnswerProbes();
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      Join(connections[rank], rank, 4);
    }
    table = Ever<SendEpoch>(connections[0]).at(0).epoch.tuning;
  }

  std::uint32_t RowOf(std::uint64_t bytes) const {
    return static_cast<std::uint32_t>(&RowAt(table, bytes) - table.rows.data());
  }

  void Tell(std::size_t member, std::vector<RowMeasured> rows) {
    Do(RowsMeasured{
        connections[member], "train", JobToken(Token()), table.version, std::move(rows)});
    if (const auto tables = Sent<SendTuning>(connections[0]); !tables.empty()) {
      table = tables[0].tuning;
    }
  }

  // All members tell the same. Whether a table came of it.
  bool Report(const std::vector<RowMeasured>& rows) {
    const std::uint32_t before = table.version;
    for (std::size_t member = 0; member < connections.size() && table.version == before; ++member) {
      Tell(member, rows);
    }
    return table.version != before;
  }

  bool Report(std::uint32_t row, double ratio) { return Report({{row, 16, ratio}}); }

  // Until nothing is tried any more, by what ops really take.
  void Settle(const std::vector<std::uint64_t>& sizes,
              const std::function<double(const collective::TuningRow&)>& truth) {
    for (int i = 0; i < 40; ++i) {
      std::vector<RowMeasured> rows;
      for (const std::uint64_t bytes : sizes) {
        const collective::TuningRow& row = RowAt(table, bytes);
        rows.push_back({RowOf(bytes), 16, truth(row) / row.seconds});
      }
      Report(rows);
    }
  }

  std::uint64_t Token() const { return Ever<SendEpoch>(connections[0]).at(0).epoch.token.value(); }

  std::vector<ConnectionId> connections;
  collective::TuningTable table;
};

// As the formula says, times what depends on the algorithm.
double Truth(const collective::TuningRow& row, double slow = 1) {
  const double factor = row.algorithm == Algorithm::kTree ? 2 : 3;
  return slow * factor *
         collective::PredictAllReduce(row.algorithm, row.seconds_at, 4, kLink, row.slice_bytes)
             .seconds;
}

TEST(Learning, ARowHasNewsOnceAllMembersHaveTold) {
  LearningJob job;
  const std::uint32_t row = job.RowOf(64 << 20);
  for (const std::size_t member : {0, 1, 1, 2, 0}) {
    job.Tell(member, {{row, 16, 2}});
    EXPECT_EQ(job.CountOfLast<SendTuning>(), 0u);
    EXPECT_THAT(job.View().jobs.at(0).measured, IsEmpty());
  }
  job.Tell(3, {{row, 16, 2}});
  EXPECT_EQ(job.CountOfLast<SendTuning>(), 4u) << "every member gets it";
  EXPECT_EQ(job.table.version, 2u);
}

// A root that has nothing more to send is done long before the op is.
TEST(Learning, AnOpTakesAsLongAsWhereItTakesLongest) {
  LearningJob job;
  const std::uint32_t row = job.RowOf(64 << 20);
  for (const auto& [member, ratio] : {std::pair(2, 0.5), {0, 0.1}, {3, 4.0}, {1, 1.0}}) {
    job.Tell(static_cast<std::size_t>(member), {{row, 16, ratio}});
  }
  const auto is_told = [](const Action& action) {
    const auto* line = std::get_if<LogLine>(&action);
    return line != nullptr && line->text.find("took 4.00 times") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(job.all.begin(), job.all.end(), is_told), 1);
}

TEST(Learning, ARowThatIsRightOrNoisyIsLeft) {
  LearningJob job;
  job.Settle({4096}, [](const auto& row) { return Truth(row); });
  const std::uint32_t row = job.RowOf(4096);
  for (const double ratio : {1.4, 0.7, 2.0, 1.0, 2.0, 1.0}) {
    EXPECT_FALSE(job.Report(row, ratio)) << ratio;
  }
  const auto measured = job.View().jobs.at(0).measured;
  ASSERT_THAT(measured, SizeIs(1));
  EXPECT_EQ(measured[0].row, row);
  EXPECT_EQ(measured[0].ratio, 1.0);
}

TEST(Learning, ARowThatStaysFarOffIsMeasuredAnewWithItsRivals) {
  LearningJob job;
  job.Settle({4096}, [](const auto& row) { return Truth(row); });
  const std::uint32_t row = job.RowOf(4096);
  const Algorithm settled = job.table.rows[row].algorithm;
  EXPECT_FALSE(job.Report(row, 2)) << "once is no while";
  EXPECT_TRUE(job.Report(row, 2));
  EXPECT_THAT(job.table.rows[row].reason, testing::StartsWith("tries "));
  EXPECT_NE(job.table.rows[row].algorithm, settled);
}

TEST(Learning, ALoadThatComesAndGoesBringsFewerAndFewerTables) {
  LearningJob job;
  double slow = 1;
  const auto count = [&](int reports) {
    const std::uint32_t before = job.table.version;
    for (int i = 0; i < reports; ++i) {
      if (i % 8 == 0) {
        slow = slow == 1 ? 4 : 1;
      }
      const collective::TuningRow& row = RowAt(job.table, 4096);
      job.Report(job.RowOf(4096), Truth(row, slow) / row.seconds);
    }
    return job.table.version - before;
  };
  count(400);
  EXPECT_EQ(count(400), 0u);
}

TEST(Learning, OnlyMembersAndThePresentTableCount) {
  LearningJob job;
  const ConnectionId stranger = job.Attach("z");
  job.AnswerProbes();
  const std::uint32_t row = job.RowOf(4096);
  const auto tell_all = [&](std::uint32_t version, RowMeasured measured) {
    for (std::size_t member = 0; member < 3; ++member) {
      job.Do(RowsMeasured{
          job.connections[member], "train", JobToken(job.Token()), version, {measured}});
      EXPECT_EQ(job.CountOfLast<SendTuning>(), 0u);
    }
    job.Do(RowsMeasured{stranger, "train", JobToken(job.Token()), version, {measured}});
    EXPECT_EQ(job.CountOfLast<SendTuning>(), 0u);
  };
  tell_all(job.table.version, {row, 16, 4});
  tell_all(job.table.version + 1, {row, 16, 4});
  for (const RowMeasured& nonsense :
       {RowMeasured{9999, 16, 4}, RowMeasured{row, 16, -1}, RowMeasured{row, 0, 4}}) {
    EXPECT_FALSE(job.Report({nonsense}));
  }
}

// Sizes that are learned side by side, in one report, do not change each other's times.
TEST(Learning, SettlesOnTheFastestThatItHasTried) {
  LearningJob job;
  job.Settle({4096, 8192, 16384}, [](const auto& row) { return Truth(row); });
  const std::uint32_t version = job.table.version;
  job.Settle({4096, 8192, 16384}, [](const auto& row) { return Truth(row); });
  EXPECT_EQ(job.table.version, version);
  for (const std::uint64_t bytes : {4096, 8192, 16384}) {
    const collective::TuningRow& settled = RowAt(job.table, bytes);
    EXPECT_NEAR(settled.seconds / Truth(settled), 1, 1e-9);
    for (const Algorithm algorithm : {Algorithm::kRing,
                                      Algorithm::kTree,
                                      Algorithm::kDoubleTree,
                                      Algorithm::kHalvingDoubling,
                                      Algorithm::kDirect}) {
      collective::TuningRow other = settled;
      other.algorithm = algorithm;
      EXPECT_LE(Truth(settled), Truth(other) * 1.03) << bytes << " " << Name(algorithm);
    }
  }
}

TEST(Learning, IsThereForTheNextJobOnTheseNodes) {
  LearningJob job;
  job.Settle({64 << 20}, [](const auto& row) { return Truth(row, 1.5); });
  const collective::TuningRow learned = RowAt(job.table, 64 << 20);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    job.Leave(job.connections[rank], rank, job.Token());
  }
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    job.Join(job.connections[rank], rank, 4);
  }
  const auto epochs = job.Ever<SendEpoch>(job.connections[0]);
  ASSERT_THAT(epochs, SizeIs(2));
  EXPECT_EQ(RowAt(epochs[1].epoch.tuning, 64 << 20), learned);
}

TEST(Learning, BeginsAfreshWhenLinksAreMeasuredOnRequest) {
  LearningJob job;
  const collective::TuningRow before = RowAt(job.table, 4096);
  job.Settle({4096}, [](const auto& row) { return Truth(row); });
  EXPECT_NE(RowAt(job.table, 4096), before);
  job.Do(LinksWanted{});
  job.AnswerProbes();
  EXPECT_EQ(RowAt(job.Ever<SendTuning>(job.connections[0]).back().tuning, 4096), before);
}

// ---- a coordinator that was restarted

TEST(Tables, AreAdoptedAndTheNewestIsTold) {
  LearningJob job;
  EpochInfo epoch = job.Ever<SendEpoch>(job.connections[0]).at(0).epoch;
  ProbingCluster restarted;
  AgentAttached hello = restarted.Hello("a");
  hello.epochs = {epoch};
  const ConnectionId a = restarted.Attach(hello);
  EXPECT_EQ(restarted.View().jobs.at(0).epoch.tuning, epoch.tuning);
  hello = restarted.Hello("b");
  epoch.tuning.version = 5;
  hello.epochs = {epoch};
  restarted.Attach(hello);
  EXPECT_EQ(restarted.View().jobs.at(0).epoch.tuning.version, 5u);
  hello = restarted.Hello("c");
  epoch.tuning.version = 1;
  hello.epochs = {epoch};
  const ConnectionId c = restarted.Attach(hello);
  ASSERT_THAT(restarted.Sent<SendTuning>(c), SizeIs(1));
  EXPECT_EQ(restarted.Sent<SendTuning>(c)[0].tuning.version, 5u);
  (void)a;
}

// ---- rules

TEST(Rules, CountWithoutLinksToo) {
  MembershipOptions options{.version = "1.0", .agent_lease = kLease};
  options.rules = {
      {.bytes_end = 1000, .algorithm = Algorithm::kTree, .origin = "rules.toml, line 1"}};
  ProbingCluster cluster(options);
  const ConnectionId a = cluster.Attach("a");
  const ConnectionId b = cluster.Attach("b");
  cluster.Join(a, 0, 2);
  cluster.Join(b, 1, 2);
  const auto table = cluster.Sent<SendEpoch>(a).at(0).epoch.tuning;
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0].algorithm, Algorithm::kTree);
  EXPECT_THAT(table.rows[0].reason, HasSubstr("rules.toml, line 1"));
}

}  // namespace
}  // namespace maypole::server
