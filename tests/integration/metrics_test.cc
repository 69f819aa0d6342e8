// What the HTTP ports of agent and coordinator say while a job runs.
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
using ::testing::StartsWith;

class MetricsTest : public IntegrationTest {};

TEST_F(MetricsTest, AgentsCountOpsAndBytes) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  const auto tensors = Tensors(sessions, 1000);
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(AllReduceAll(sessions, tensors, {.algorithm = MAYPOLE_RING}), Each("ok"));
  }
  const DaemonProcess& agent = cluster.agent(0);
  const std::string ops =
      "maypole_collectives_total{op=\"all_reduce\",algorithm=\"ring\",result=\"ok\"} 3";
  EXPECT_TRUE(Eventually([&] { return agent.Get("/metrics").find(ops) != std::string::npos; }))
      << agent.Get("/metrics");
  EXPECT_THAT(agent.Get("/metrics"),
              AllOf(HasSubstr("maypole_payload_bytes_total{op=\"all_reduce\"} 12000"),
                    HasSubstr("maypole_members{job=\"job\"} 2"),
                    HasSubstr("maypole_epoch{job=\"job\"} 1")));
}

TEST_F(MetricsTest, ReadinessSaysWhetherTheCoordinatorIsThere) {
  TestCluster cluster({.nodes = 1, .with_coordinator = false});
  const DaemonProcess& agent = cluster.agent(0);
  EXPECT_THAT(agent.Get("/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(agent.Get("/readyz"),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr(cluster.coordinator_address())));
  cluster.StartCoordinator();
  EXPECT_TRUE(Eventually([&] { return agent.Get("/readyz").find(" 200 ") != std::string::npos; }));
  EXPECT_THAT(cluster.coordinator().Get("/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(cluster.coordinator().Get("/metrics"), HasSubstr("maypole_"));
}

}  // namespace
}  // namespace maypole::test
