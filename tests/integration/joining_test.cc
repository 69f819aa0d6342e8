// Ranks that join wrongly are told why, and the agent lives; ranks, agents and the coordinator may
// start in any order.
#include <signal.h>

#include <future>

#include <gmock/gmock.h>

#include "tests/support/integration_test.h"
#include "tests/support/ops.h"
#include "tests/support/process_facts.h"
#include "tests/support/rank_process.h"
#include "tests/support/test_cluster.h"

namespace maypole::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class JoiningTest : public IntegrationTest {
 protected:
  // Joins in the background.
  static std::future<std::string> Join(const TestCluster& cluster,
                                       std::uint32_t node,
                                       std::uint32_t rank,
                                       std::uint32_t world_size,
                                       double timeout = 20) {
    return std::async(std::launch::async, [=, &cluster] {
      return TextOfError([&] { cluster.Connect(node, rank, world_size, "job", timeout); });
    });
  }

  static bool IsForming(const TestCluster& cluster) {
    return cluster.StatusJson().find("\"forming\"") != std::string::npos;
  }

  // A job of its own goes through all agents.
  static void ExpectAllAgentsServe(const TestCluster& cluster) {
    std::vector<Session> sessions = cluster.ConnectAll(1, "another job");
    const auto tensors = Tensors(sessions, 1000);
    EXPECT_THAT(AllReduceAll(sessions, tensors), Each("ok"));
    EXPECT_EQ(tensors[0][999], SumOfRanks(sessions.size()));
  }
};

TEST_F(JoiningTest, TheSameRankTwiceOnANodeIsRefusedNamingTheProcessThatHoldsIt) {
  TestCluster cluster({.nodes = 1});
  RankProcess holder([&](const RankProcess::Say&) { cluster.Connect(0, 0, 2); });
  ASSERT_TRUE(Eventually([&] { return IsForming(cluster); }));
  EXPECT_THAT(TextOfError([&] { cluster.Connect(0, 0, 2); }),
              AllOf(StartsWith("invalid argument: "),
                    HasSubstr("rank 0 of job \"job\""),
                    HasSubstr("process " + std::to_string(holder.pid()))));
  ExpectAllAgentsServe(cluster);
}

TEST_F(JoiningTest, TheSameRankOnTwoNodesIsRefusedNamingBoth) {
  TestCluster cluster({.nodes = 2});
  std::future<std::string> one = Join(cluster, 0, 0, 2);
  std::future<std::string> other = Join(cluster, 1, 0, 2);
  using std::future_status;
  ASSERT_TRUE(Eventually([&] {
    return one.wait_for(std::chrono::seconds(0)) == future_status::ready ||
           other.wait_for(std::chrono::seconds(0)) == future_status::ready;
  }));
  const bool one_is_refused = one.wait_for(std::chrono::seconds(0)) == future_status::ready;
  EXPECT_THAT((one_is_refused ? one : other).get(),
              AllOf(StartsWith("invalid argument: "),
                    HasSubstr("rank 0 has already joined"),
                    HasSubstr("node-0"),
                    HasSubstr("node-1")));
  // The one that was first gets its job.
  EXPECT_EQ(Join(cluster, 0, 1, 2).get(), "ok");
  EXPECT_EQ((one_is_refused ? other : one).get(), "ok");
  ExpectAllAgentsServe(cluster);
}

TEST_F(JoiningTest, ARankOutsideTheWorldIsRefused) {
  TestCluster cluster({.nodes = 1});
  EXPECT_THAT(
      TextOfError([&] { cluster.Connect(0, 2, 2); }),
      AllOf(StartsWith("invalid argument: "), HasSubstr("rank 2 is not in 0 .. world size")));
  ExpectAllAgentsServe(cluster);
}

TEST_F(JoiningTest, TwoWorldSizesInOneJobAreRefusedNamingBoth) {
  TestCluster cluster({.nodes = 2});
  std::future<std::string> first = Join(cluster, 0, 0, 2);
  ASSERT_TRUE(Eventually([&] { return IsForming(cluster); }));
  EXPECT_THAT(TextOfError([&] { cluster.Connect(1, 1, 3); }),
              AllOf(StartsWith("invalid argument: "),
                    HasSubstr("announced with world size 2"),
                    HasSubstr("rank 0 on node node-0"),
                    HasSubstr("says 3")));
  EXPECT_EQ(Join(cluster, 1, 1, 2).get(), "ok");
  EXPECT_EQ(first.get(), "ok");
  ExpectAllAgentsServe(cluster);
}

TEST_F(JoiningTest, ASecondJobOfTheNameOfARunningOneIsRefusedAndTheFirstGoesOn) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  EXPECT_THAT(TextOfError([&] { cluster.Connect(0, 0, 2); }), HasSubstr("already held"));
  EXPECT_THAT(TextOfError([&] { cluster.Connect(0, 1, 2); }),
              AllOf(HasSubstr("job \"job\""), HasSubstr("already running")));
  const auto tensors = Tensors(sessions, 100);
  EXPECT_THAT(AllReduceAll(sessions, tensors), Each("ok"));
}

TEST_F(JoiningTest, ARankThatWaitsInVainIsToldForWhatAndItsPlaceIsFree) {
  TestCluster cluster({.nodes = 1});
  EXPECT_THAT(TextOfError([&] { cluster.Connect(0, 0, 2, "job", 0.2); }),
              AllOf(StartsWith("timeout: "),
                    HasSubstr("rank 0 has waited"),
                    HasSubstr("job \"job\""),
                    HasSubstr("1 of 2 ranks have joined; waiting for rank 1")));
  std::future<std::string> again = Join(cluster, 0, 0, 2);
  EXPECT_EQ(Join(cluster, 0, 1, 2).get(), "ok");
  EXPECT_EQ(again.get(), "ok");
}

TEST_F(JoiningTest, ARankThatIsKilledWhileItWaitsLeavesItsPlaceToAnother) {
  TestCluster cluster({.nodes = 2});
  RankProcess waiting([&](const RankProcess::Say&) { cluster.Connect(0, 0, 2); });
  ASSERT_TRUE(Eventually([&] { return IsForming(cluster); }));
  waiting.Kill();
  // Whoever joins before its end is heard becomes a member of a run that fails.
  ASSERT_TRUE(Eventually([&] { return !IsForming(cluster); }));
  EXPECT_THAT(cluster.ConnectAll(1), ::testing::SizeIs(2));
}

TEST_F(JoiningTest, NoAgentAtTheSocketIsToldWithThePath) {
  const std::string socket = folder() + "/none.sock";
  EXPECT_THAT(
      TextOfError([&] { Session::Connect({.socket = socket.c_str(), .world_size = 1}); }),
      AllOf(StartsWith("agent unavailable: "), HasSubstr(socket), HasSubstr("maypole-agent")));
}

TEST_F(JoiningTest, WithoutACoordinatorRanksAreToldItsAddressAndTheAgentKeepsTrying) {
  TestCluster cluster(
      {.nodes = 1, .agent_arguments = {"--coordinator-patience", "1s"}, .with_coordinator = false});
  const Stopwatch watch;
  EXPECT_THAT(TextOfError([&] { cluster.Connect(0, 0, 1); }),
              AllOf(StartsWith("failed precondition: "),
                    HasSubstr("cannot reach the coordinator"),
                    HasSubstr(cluster.coordinator_address())));
  EXPECT_GT(watch.Seconds(), 0.9);
  EXPECT_LT(watch.Seconds(), 3);
  cluster.StartCoordinator();
  ExpectAllAgentsServe(cluster);
}

TEST_F(JoiningTest, RanksAndAgentsMayComeBeforeTheCoordinator) {
  TestCluster cluster({.nodes = 2, .with_coordinator = false});
  std::future<std::string> one = Join(cluster, 0, 0, 2);
  std::future<std::string> other = Join(cluster, 1, 1, 2);
  cluster.StartCoordinator();
  EXPECT_EQ(one.get(), "ok");
  EXPECT_EQ(other.get(), "ok");
}

TEST_F(JoiningTest, AnAgentMayComeWhenRanksOfOtherNodesWaitAlready) {
  TestCluster cluster({.nodes = 2});
  cluster.agent(1).Signal(SIGTERM);
  ASSERT_EQ(cluster.agent(1).AwaitEnd(), 0);
  std::future<std::string> first = Join(cluster, 0, 0, 2);
  EXPECT_THAT(Join(cluster, 1, 1, 2).get(), StartsWith("agent unavailable: "));
  cluster.StartAgent(1);
  EXPECT_EQ(Join(cluster, 1, 1, 2).get(), "ok");
  EXPECT_EQ(first.get(), "ok");
}

}  // namespace
}  // namespace maypole::test
