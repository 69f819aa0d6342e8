// What the HTTP ports of agent and coordinator say while a job runs.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

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

std::string Get(int port, const std::string& path) {
  const UniqueFd connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return "nobody listens";
  }
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  (void)!write(connection.get(), request.data(), request.size());
  std::string answer;
  std::array<char, 4096> text;
  for (ssize_t got = 0; (got = read(connection.get(), text.data(), text.size())) > 0;) {
    answer.append(text.data(), static_cast<std::size_t>(got));
  }
  return answer;
}

class MetricsTest : public IntegrationTest {};

TEST_F(MetricsTest, AgentsCountOpsAndBytes) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  const auto tensors = Tensors(sessions, 1000);
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(AllReduceAll(sessions, tensors, {.algorithm = MAYPOLE_RING}), Each("ok"));
  }
  const int port = cluster.agent(0).Port("http");
  const std::string ops =
      "maypole_collectives_total{op=\"all_reduce\",algorithm=\"ring\",result=\"ok\"} 3";
  EXPECT_TRUE(Eventually([&] { return Get(port, "/metrics").find(ops) != std::string::npos; }))
      << Get(port, "/metrics");
  EXPECT_THAT(Get(port, "/metrics"),
              AllOf(HasSubstr("maypole_payload_bytes_total{op=\"all_reduce\"} 12000"),
                    HasSubstr("maypole_members{job=\"job\"} 2"),
                    HasSubstr("maypole_epoch{job=\"job\"} 1")));
}

TEST_F(MetricsTest, ReadinessSaysWhetherTheCoordinatorIsThere) {
  TestCluster cluster({.nodes = 1, .with_coordinator = false});
  const int port = cluster.agent(0).Port("http");
  EXPECT_THAT(Get(port, "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(port, "/readyz"),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr(cluster.coordinator_address())));
  cluster.StartCoordinator();
  EXPECT_TRUE(Eventually([&] { return Get(port, "/readyz").find(" 200 ") != std::string::npos; }));
  EXPECT_THAT(Get(cluster.coordinator().Port("http"), "/metrics"), HasSubstr("maypole_"));
}

}  // namespace
}  // namespace maypole::test
