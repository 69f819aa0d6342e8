// Joining, running, leaving and failing.
#include <algorithm>
#include <numeric>
#include <random>

#include "proto/handshake.h"
#include "tests/unit/server/cluster.h"

namespace maypole::server {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string RefusalOf(Cluster& cluster,
                      ConnectionId connection,
                      std::uint32_t rank,
                      std::uint32_t world_size,
                      const std::string& job = "train") {
  cluster.Join(connection, rank, world_size, job);
  const auto refusals = cluster.Sent<RefuseJoin>(connection);
  if (refusals.empty()) {
    return "";
  }
  EXPECT_EQ(refusals[0].job, job);
  EXPECT_EQ(refusals[0].rank, Rank(rank));
  return refusals[0].text;
}

TEST(Jobs, OfOneRankFormAtOnce) {
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  cluster.Join(a, 0, 1);
  const auto epochs = cluster.Sent<SendEpoch>(a);
  ASSERT_THAT(epochs, SizeIs(1));
  EXPECT_EQ(epochs[0].epoch.token, JobToken(1000));
  EXPECT_EQ(epochs[0].epoch.epoch, Epoch(1));
  EXPECT_THAT(epochs[0].epoch.members,
              ElementsAre(EpochMember{"a", 1, "host-a", "address-a", {Rank(0)}}));
}

TEST(Jobs, FormOnlyWhenTheLastRankHasJoined) {
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  const ConnectionId b = cluster.Attach("b");
  cluster.Join(a, 0, 3);
  cluster.Join(a, 1, 3);
  EXPECT_EQ(cluster.CountOfLast<SendEpoch>(), 0u);
  const JobView forming = cluster.View().jobs.at(0);
  EXPECT_EQ(forming.state, JobState::kForming);
  EXPECT_THAT(forming.missing_ranks, ElementsAre(Rank(2)));
  EXPECT_THAT(forming.reason, AllOf(HasSubstr("2 of 3"), HasSubstr("rank 2")));
  EXPECT_THAT(forming.epoch.members, SizeIs(1));
  cluster.Join(b, 2, 3);
  EXPECT_THAT(cluster.Sent<SendEpoch>(a), SizeIs(1));
  EXPECT_THAT(cluster.Sent<SendEpoch>(b), SizeIs(1));
  EXPECT_EQ(cluster.View().counters.epochs_issued, 1u);
}

TEST(Jobs, RanksThatWaitInVainAreToldWhoIsMissingAndTheirPlacesAreFree) {
  using std::chrono::seconds;
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  cluster.Join(a, 0, 4, "train", seconds(5));
  cluster.Join(a, 1, 4, "train", seconds(6));
  cluster.Join(a, 2, 4);  // waits for ever
  cluster.Pass(seconds(5) - Duration(1));
  EXPECT_EQ(cluster.CountOfLast<RefuseJoin>(), 0u);
  cluster.Pass(Duration(1));
  const auto first = cluster.Sent<RefuseJoin>(a);
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].rank, Rank(0));
  EXPECT_TRUE(first[0].timed_out);
  EXPECT_EQ(first[0].culprits, "waiting_ranks=3");
  EXPECT_EQ(first[0].text,
            "rank 0 has waited 5.0 s for job \"train\" to form: 3 of 4 ranks have joined; waiting "
            "for rank 3; start them, or raise the timeout");
  cluster.Pass(seconds(1));
  const auto second = cluster.Sent<RefuseJoin>(a);
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(second[0].culprits, "waiting_ranks=3");
  EXPECT_THAT(second[0].text, HasSubstr("waiting for rank 3; rank 0 gave up waiting"));
  for (const std::uint32_t rank : {0, 1, 3}) {
    cluster.Join(a, rank, 4, "train", seconds(5));
  }
  EXPECT_THAT(cluster.Sent<SendEpoch>(a), SizeIs(1));
  cluster.Pass(seconds(10));
  EXPECT_EQ(cluster.CountOfLast<RefuseJoin>(), 0u);
}

// Joins and attachments in any order give the same members in the same order.
TEST(Jobs, FormAlikeInAnyOrderOfStarts) {
  constexpr std::uint32_t kNodes = 4;
  constexpr std::uint32_t kRanks = 8;
  std::vector<EpochMember> expected;
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    const std::string name = "n" + std::to_string(node);
    expected.push_back(
        {name, 1, "host-" + name, "address-" + name, {Rank(node), Rank(node + kNodes)}});
  }
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::uint32_t> order(kRanks);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    Cluster cluster;
    std::map<std::uint32_t, ConnectionId> connections;
    for (std::uint32_t rank : order) {  // a node attaches just before its first rank joins
      const std::uint32_t node = rank % kNodes;
      if (!connections.contains(node)) {
        connections[node] = cluster.Attach("n" + std::to_string(node));
      }
      cluster.Join(connections[node], rank, kRanks);
    }
    for (const auto& [node, connection] : connections) {
      const auto epochs = cluster.Sent<SendEpoch>(connection);
      ASSERT_THAT(epochs, SizeIs(1)) << "seed " << seed;
      EXPECT_EQ(epochs[0].epoch.members, expected) << "seed " << seed;
    }
  }
}

TEST(Jobs, ReasonTellsTheOrder) {
  RunningJob job;
  EXPECT_THAT(job.epoch.reason, AllOf(HasSubstr("lowest rank"), HasSubstr("a (0) b (2)")));
  EXPECT_THAT(job.View().jobs.at(0).reason, HasSubstr("all 3 ranks joined"));
}

TEST(Jobs, NeverGetTokenZero) {
  Cluster cluster({.version = "1.0"}, 0);
  const ConnectionId a = cluster.Attach("a");
  cluster.Join(a, 0, 1);
  EXPECT_EQ(cluster.Sent<SendEpoch>(a).at(0).epoch.token, JobToken(1));
}

TEST(Jobs, RankTwiceIsRefusedNamingWhoHoldsIt) {
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  const ConnectionId b = cluster.Attach("b");
  cluster.Join(a, 1, 3);
  EXPECT_THAT(RefusalOf(cluster, b, 1, 3),
              AllOf(HasSubstr("rank 1"), HasSubstr("node a (host host-a)"), HasSubstr("node b")));
  EXPECT_THAT(RefusalOf(cluster, a, 1, 3), HasSubstr("already joined"));
  EXPECT_EQ(cluster.View().counters.joins_refused, 2u);
  EXPECT_EQ(RefusalOf(cluster, b, 0, 3), "") << "the job goes on forming";
}

TEST(Jobs, RankBeyondTheWorldIsRefused) {
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  EXPECT_THAT(RefusalOf(cluster, a, 4, 4), AllOf(HasSubstr("rank 4"), HasSubstr("0 to 3")));
  EXPECT_THAT(RefusalOf(cluster, a, 0xffffffff, 4), HasSubstr("rank 4294967295"));
  EXPECT_EQ(RefusalOf(cluster, a, 3, 4), "");
}

TEST(Jobs, WorldSizesOutOfRangeAreRefused) {
  Cluster cluster({.version = "1.0", .world_size_max = 8});
  const ConnectionId a = cluster.Attach("a");
  EXPECT_THAT(RefusalOf(cluster, a, 0, 0), HasSubstr("world size 0"));
  EXPECT_THAT(RefusalOf(cluster, a, 0, 9), AllOf(HasSubstr("world size 9"), HasSubstr("1 to 8")));
  EXPECT_EQ(RefusalOf(cluster, a, 0, 8), "");
}

TEST(Jobs, TwoWorldSizesInOneJobAreRefusedNamingBoth) {
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  const ConnectionId b = cluster.Attach("b");
  cluster.Join(a, 0, 4);
  EXPECT_THAT(RefusalOf(cluster, b, 1, 8),
              AllOf(HasSubstr("world size 4"),
                    HasSubstr("rank 0 on node a"),
                    HasSubstr("rank 1 on node b"),
                    HasSubstr("says 8")));
}

TEST(Jobs, UnusableNamesAreRefused) {
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  for (const std::string& name :
       {std::string(), std::string(kJobNameBytesMax + 1, 'x'), std::string("a\tb")}) {
    EXPECT_THAT(RefusalOf(cluster, a, 0, 1, name), HasSubstr("name is not allowed")) << name;
  }
  EXPECT_EQ(RefusalOf(cluster, a, 0, 1, std::string(kJobNameBytesMax, 'x')), "");
}

TEST(Jobs, SecondRunOfANameIsRefusedWhileTheFirstRuns) {
  RunningJob job;
  EXPECT_THAT(RefusalOf(job, job.b, 0, 3),
              AllOf(HasSubstr("\"train\" is already running"), HasSubstr("2 nodes")));
  EXPECT_EQ(RefusalOf(job, job.b, 0, 3, "other"), "");
}

TEST(Jobs, AreLimitedInNumber) {
  Cluster cluster({.version = "1.0", .jobs_max = 1});
  const ConnectionId a = cluster.Attach("a");
  cluster.Join(a, 0, 2, "one");
  EXPECT_THAT(RefusalOf(cluster, a, 0, 2, "two"), HasSubstr("1 jobs"));
  EXPECT_EQ(RefusalOf(cluster, a, 1, 2, "one"), "");
}

TEST(Jobs, JoinsOfALostStreamAreDroppedAndMayBeSaidAgain) {
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  const ConnectionId b = cluster.Attach("b");
  cluster.Join(a, 0, 2);
  cluster.Do(AgentDetached{a});
  EXPECT_THAT(cluster.View().jobs, IsEmpty());
  cluster.Join(b, 1, 2);
  const ConnectionId again = cluster.Attach("a");
  cluster.Join(again, 0, 2);
  EXPECT_THAT(cluster.Sent<SendEpoch>(again), SizeIs(1));
}

TEST(Jobs, JoinsOfAReplacedStreamAreDroppedToo) {
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  cluster.Join(a, 0, 2);
  const ConnectionId again = cluster.Attach("a");
  EXPECT_EQ(RefusalOf(cluster, again, 0, 2), "");
}

TEST(Jobs, ALongWaitForRanksIsReportedOnceWithWhoIsMissing) {
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  cluster.Join(a, 1, 3);
  cluster.Pass(std::chrono::milliseconds(9'900));
  EXPECT_EQ(cluster.CountOfLast<LogLine>(), 0u);
  cluster.Join(a, 0, 3);
  cluster.Pass(std::chrono::milliseconds(200));
  ASSERT_EQ(cluster.CountOfLast<LogLine>(), 1u);
  const auto& line = std::get<LogLine>(cluster.last.front());
  EXPECT_EQ(line.level, LogLine::Level::kWarning);
  EXPECT_EQ(
      line.text,
      "job \"train\" has been forming for 10 s: 2 of 3 ranks have joined; waiting for rank 2");
  cluster.Pass(std::chrono::minutes(1));
  EXPECT_EQ(cluster.CountOfLast<LogLine>(), 0u);
}

TEST(Jobs, ARankThatLeavesWhileFormingFreesItsPlace) {
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  const ConnectionId b = cluster.Attach("b");
  cluster.Join(a, 0, 2);
  cluster.Leave(b, 0, 0);
  EXPECT_THAT(cluster.View().jobs, SizeIs(1)) << "only its own agent speaks for a rank";
  cluster.Leave(a, 0, 0, true);
  EXPECT_THAT(cluster.View().jobs, IsEmpty());
  EXPECT_EQ(RefusalOf(cluster, b, 0, 4), "") << "even the world size is free again";
}

TEST(Jobs, EndWhenAllRanksHaveLeftAndTheirNameIsFree) {
  RunningJob job;
  job.Leave(job.a, 0, 1000);
  job.Leave(job.a, 1, 1000);
  EXPECT_EQ(job.View().jobs.at(0).state, JobState::kRunning);
  job.Leave(job.b, 2, 1000);
  EXPECT_THAT(job.View().jobs, IsEmpty());
  EXPECT_EQ(job.CountOfLast<SendJobFailed>(), 0u);
  job.Join(job.a, 0, 1);
  EXPECT_EQ(job.Sent<SendEpoch>(job.a).at(0).epoch.token, JobToken(1001));
}

TEST(Jobs, TheNextRunOfANameWaitsForTheLastRankToLeave) {
  RunningJob job;
  job.Leave(job.a, 0, 1000);
  EXPECT_EQ(RefusalOf(job, job.a, 0, 1), "");
  EXPECT_EQ(job.CountOfLast<SendEpoch>(), 0u);
  job.Leave(job.a, 1, 1000);
  EXPECT_EQ(job.CountOfLast<SendEpoch>(), 0u);
  job.Leave(job.b, 2, 1000);
  EXPECT_EQ(job.Sent<SendEpoch>(job.a).at(0).epoch.token, JobToken(1001));
}

TEST(Jobs, TheNextRunOfANameIsRefusedWhenThePresentOneGoesOnForTooLong) {
  RunningJob job;
  job.Leave(job.a, 0, 1000);
  job.Join(job.a, 0, 1);
  job.Pass(kLease - std::chrono::milliseconds(1));
  EXPECT_EQ(job.CountOfLast<RefuseJoin>(), 0u);
  job.Pass(std::chrono::milliseconds(1));
  ASSERT_THAT(job.Sent<RefuseJoin>(job.a), SizeIs(1));
  EXPECT_THAT(job.Sent<RefuseJoin>(job.a)[0].text, HasSubstr("already running"));
}

TEST(Jobs, ARankThatWaitsForTheNextRunDoesSoForItsOwnTimeoutOnly) {
  RunningJob job;
  job.Leave(job.a, 0, 1000);
  job.Join(job.a, 0, 3, "train", std::chrono::seconds(6));
  job.Pass(std::chrono::seconds(5));
  EXPECT_EQ(job.CountOfLast<RefuseJoin>(), 0u);
  job.Pass(std::chrono::seconds(1));
  ASSERT_THAT(job.Sent<RefuseJoin>(job.a), SizeIs(1));
  EXPECT_TRUE(job.Sent<RefuseJoin>(job.a)[0].timed_out);
  EXPECT_EQ(job.Sent<RefuseJoin>(job.a)[0].text,
            "rank 0 has waited 6.0 s for job \"train\" to form: ranks 1, 2 of its last run did not "
            "leave; end them, or raise the timeout");
  EXPECT_EQ(job.Sent<RefuseJoin>(job.a)[0].culprits, "waiting_ranks=1,2");
}

TEST(Jobs, ATimeoutCountsFromTheJoinThoughItWasHeld) {
  RunningJob job;
  job.Leave(job.a, 0, 1000);
  job.Join(job.a, 0, 3, "train", std::chrono::seconds(6));
  job.Pass(std::chrono::seconds(5));
  job.Leave(job.a, 1, 1000);
  job.Leave(job.b, 2, 1000);
  EXPECT_EQ(job.View().jobs.at(0).state, JobState::kForming);
  job.Pass(std::chrono::seconds(1));
  ASSERT_THAT(job.Sent<RefuseJoin>(job.a), SizeIs(1));
  EXPECT_THAT(job.Sent<RefuseJoin>(job.a)[0].text, HasSubstr("has waited 6.0 s"));
}

TEST(Jobs, ARankThatWaitsForTheNextRunMayGiveUp) {
  RunningJob job;
  job.Leave(job.a, 0, 1000);
  job.Join(job.a, 0, 1);
  job.Leave(job.a, 0, 0);
  EXPECT_EQ(job.CountOfLast<SendJobFailed>(), 0u) << "the present run has no part in it";
  job.Leave(job.a, 1, 1000);
  job.Leave(job.b, 2, 1000);
  EXPECT_THAT(job.View().jobs, IsEmpty());
}

TEST(Jobs, ARankThatWaitsForTheNextRunIsForgottenWithItsStream) {
  RunningJob job;
  job.Leave(job.a, 0, 1000);
  job.Leave(job.a, 1, 1000);
  job.Join(job.a, 0, 1);
  job.Do(AgentDetached{job.a});
  job.Leave(job.b, 2, 1000);
  EXPECT_EQ(job.CountOfLast<SendEpoch>(), 0u);
  EXPECT_THAT(job.View().jobs, IsEmpty());
}

TEST(Jobs, ADeadRankFailsTheJobForAllMembers) {
  RunningJob job;
  job.Leave(job.a, 1, 1000, true);
  for (ConnectionId connection : {job.a, job.b}) {
    const auto failures = job.Sent<SendJobFailed>(connection);
    ASSERT_THAT(failures, SizeIs(1));
    EXPECT_EQ(failures[0].token, JobToken(1000));
    EXPECT_THAT(failures[0].text,
                AllOf(HasSubstr("rank 1"), HasSubstr("host-a"), HasSubstr("its process ended")));
    EXPECT_EQ(failures[0].culprits, "ranks=1;hosts=host-a");
  }
  job.Leave(job.b, 2, 1000, true);
  EXPECT_EQ(job.CountOfLast<SendJobFailed>(), 0u) << "a job fails once";
  EXPECT_EQ(job.View().counters.jobs_failed, 1u);
}

TEST(Jobs, LeavesOfAnotherRunAreIgnored) {
  RunningJob job;
  job.Leave(job.a, 0, 999, true);
  job.Leave(job.b, 0, 1000, true);  // not its rank
  job.Leave(job.a, 7, 1000, true);  // nobody's rank
  EXPECT_EQ(job.View().jobs.at(0).state, JobState::kRunning);
}

// The agent had not seen the epoch when its client went away: nobody would ever submit for that
// rank.
TEST(Jobs, ARankThatLeftAsTheJobFormedFailsIt) {
  RunningJob job;
  job.Leave(job.b, 2, 0);
  EXPECT_THAT(job.Sent<SendJobFailed>(job.a), SizeIs(1));
}

TEST(Jobs, AnAgentsReportFailsTheJobWithItsWords) {
  RunningJob job;
  job.Do(FailureReported{
      job.b, "train", JobToken(1000), Epoch(1), "node a is silent", "ranks=0,1;hosts=host-a"});
  const auto failures = job.Sent<SendJobFailed>(job.a);
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_EQ(failures[0].text, "node a is silent");
  EXPECT_EQ(failures[0].culprits, "ranks=0,1;hosts=host-a");
  EXPECT_THAT(job.View().jobs.at(0).reason, HasSubstr("reported by node b"));
  job.Do(FailureReported{job.a, "train", JobToken(1000), Epoch(1), "node b is silent", ""});
  EXPECT_THAT(job.View().jobs.at(0).reason, Not(HasSubstr("reported by node a")));
}

TEST(Jobs, ReportsOfStrangersAndOfOtherRunsAreIgnored) {
  RunningJob job;
  const ConnectionId c = job.Attach("c");
  job.Do(FailureReported{c, "train", JobToken(1000), Epoch(1), "x", ""});
  job.Do(FailureReported{job.b, "train", JobToken(999), Epoch(1), "x", ""});
  job.Do(FailureReported{job.b, "train", JobToken(1000), Epoch(0), "x", ""});
  job.Do(FailureReported{job.b, "other", JobToken(1000), Epoch(1), "x", ""});
  EXPECT_EQ(job.View().jobs.at(0).state, JobState::kRunning);
}

TEST(Jobs, AFailedRunMakesRoomForTheNextOfItsName) {
  RunningJob job;
  job.Leave(job.b, 2, 1000, true);
  job.Join(job.a, 0, 2);
  EXPECT_EQ(job.View().jobs.at(0).state, JobState::kForming);
  job.Leave(job.a, 1, 1000);  // of the failed run: late, and no matter
  EXPECT_EQ(job.View().jobs.at(0).state, JobState::kForming);
  job.Join(job.b, 1, 2);
  EXPECT_EQ(job.Sent<SendEpoch>(job.a).at(0).epoch.token, JobToken(1001));
}

TEST(Jobs, AFailedRunIsForgottenWhenItsRanksHaveLeft) {
  RunningJob job;
  job.Leave(job.b, 2, 1000, true);
  job.Leave(job.a, 0, 1000);
  EXPECT_EQ(job.View().jobs.at(0).state, JobState::kFailed);
  job.Leave(job.a, 1, 1000);
  EXPECT_THAT(job.View().jobs, IsEmpty());
}

}  // namespace
}  // namespace maypole::server
