// Links that are measured, the tables that follow, and levels by labels.

#include <signal.h>

#include <gmock/gmock.h>

#include "tests/support/integration_test.h"
#include "tests/support/ops.h"
#include "tests/support/process_facts.h"
#include "tests/support/test_cluster.h"

namespace maypole::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class LinksTest : public IntegrationTest {};

TEST_F(LinksTest, AreMeasuredAndChooseTheAlgorithm) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll();
  // A job on a machine that is busy does not wait for them; then they come a little later.
  EXPECT_TRUE(Eventually([&] {
    const std::string status = cluster.StatusJson();
    return status.find("\"node_b\": \"node-1\"") != std::string::npos &&
           status.find("bytes among 2; instead: ") != std::string::npos;
  })) << cluster.StatusJson();
  const auto tensors = Tensors(sessions, 100'000);
  EXPECT_THAT(AllReduceAll(sessions, tensors), Each("ok"));
  EXPECT_THAT(tensors[0], Each(SumOfRanks(2)));
}

TEST_F(LinksTest, ABenchAtRunningAgentsIsComparedWithTheModelOfTheirLinks) {
  const TestCluster cluster({.nodes = 2});
  ASSERT_TRUE(Eventually(
      [&] { return cluster.StatusJson().find("\"node_b\": \"node-1\"") != std::string::npos; }));
  const auto bench = [&](const std::vector<std::string>& variables) {
    return RunToEnd({PathOfBinary("maypole"),
                     "bench",
                     "--socket",
                     cluster.SocketOf(0),
                     cluster.SocketOf(1),
                     "--sizes",
                     "64KiB",
                     "--iterations",
                     "3",
                     "--check",
                     "--json"},
                    variables);
  };
  const EndedProcess asked = bench({"MAYPOLE_COORDINATOR=" + cluster.coordinator_address()});
  EXPECT_EQ(asked.code, 0) << asked.output;
  EXPECT_THAT(asked.output,
              AllOf(HasSubstr("\"nodes\": 2"),
                    HasSubstr("\"wrong\": 0"),
                    HasSubstr("\"model_ratio\": "),
                    Not(HasSubstr("\"model_ratio\": null"))));
  EXPECT_THAT(bench({}).output, HasSubstr("\"model_ratio\": null"));
}

TEST_F(LinksTest, AnAgentKilledWhileItsLinkIsMeasuredIsLostAndItsSuccessorIsMeasured) {
  TestCluster cluster({.nodes = 2});
  const auto has_measured = [&](double times) {
    return Eventually([&] {
      return cluster.coordinator().Metric("maypole_coordinator_links_measured_total") >= times;
    });
  };
  {
    std::vector<Session> sessions = cluster.ConnectAll();
    ASSERT_TRUE(has_measured(1)) << cluster.Logs();
    // Stopped, it leaves the other's frames unanswered, so the probe lasts.
    cluster.agent(1).Signal(SIGSTOP);
    const double before = cluster.agent(0).Metric("maypole_probe_bytes_total");
    RunToEnd({PathOfBinary("maypole"),
              "status",
              "--coordinator",
              cluster.coordinator_address(),
              "--probe-links"});
    EXPECT_TRUE(
        Eventually([&] { return cluster.agent(0).Metric("maypole_probe_bytes_total") > before; }));
    const Stopwatch watch;
    cluster.agent(1).Signal(SIGKILL);
    EXPECT_THAT(TextOfError([&] { sessions[0].Barrier().Wait(); }),
                AllOf(HasSubstr("peer lost: "), HasSubstr("node-1"), HasSubstr("[ranks=1;")));
    EXPECT_LT(watch.Seconds(), 1.0);
  }
  ASSERT_EQ(cluster.agent(1).AwaitEnd(), 128 + SIGKILL);
  cluster.StartAgent(1);
  std::vector<Session> sessions = cluster.ConnectAll();
  EXPECT_TRUE(has_measured(2)) << cluster.Logs();
  EXPECT_THAT(AllReduceAll(sessions, Tensors(sessions, 100)), Each("ok"));
}

TEST_F(LinksTest, CalibrateAPlan) {
  TestCluster cluster({.nodes = 2});
  const std::vector<Session> sessions = cluster.ConnectAll();
  EndedProcess plan;
  EXPECT_TRUE(Eventually([&] {
    plan = RunToEnd({PathOfBinary("maypole"),
                     "plan",
                     "--calibrate",
                     cluster.coordinator_address(),
                     "--bytes",
                     "64MiB",
                     "--ranks",
                     "2"});
    return plan.code == 0;
  })) << plan.output;
  EXPECT_THAT(plan.output, AllOf(HasSubstr("1 link measured"), HasSubstr("Recommended: ")));
}

TEST_F(LinksTest, AHierarchyIsRefusedWithoutLevelsAndTheJobGoesOn) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll();
  const auto tensors = Tensors(sessions, 100);
  EXPECT_THAT(AllReduceAll(sessions, tensors, {.algorithm = MAYPOLE_HIERARCHICAL}),
              Each(AllOf(HasSubstr("invalid argument"), HasSubstr("hierarchical needs levels"))));
  EXPECT_THAT(AllReduceAll(sessions, tensors), Each("ok"));
}

TEST_F(LinksTest, LabelsGiveLevelsInWhichAHierarchyRuns) {
  TestCluster cluster({.nodes = 4, .labels = {"rack=a", "rack=b", "rack=a", "rack=b"}});
  std::vector<Session> sessions = cluster.ConnectAll();
  EXPECT_THAT(cluster.StatusJson(), HasSubstr("groups by the agents' labels: rack"));
  const auto tensors = Tensors(sessions, 300'001);
  EXPECT_THAT(AllReduceAll(sessions, tensors, {.algorithm = MAYPOLE_HIERARCHICAL}), Each("ok"));
  for (const auto& tensor : tensors) {
    EXPECT_THAT(tensor, Each(SumOfRanks(4)));
  }
}

}  // namespace
}  // namespace maypole::test
