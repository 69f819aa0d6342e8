// Nodes as network namespaces behind shaped links (needs root): what the kernel sees of the bytes,
// and links that go dead without a word.
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include <gmock/gmock.h>

#include "cli/child_process.h"
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

class VirtualNetworkClusterTest : public IntegrationTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) {
      GTEST_SKIP() << "network namespaces need root";
    }
    for (const char* tool : {"ip", "tc"}) {
      if (!cli::RunTool({tool, "-V"}, "", -1).ok()) {
        GTEST_SKIP() << "needs the tool " << tool << " (iproute2)";
      }
    }
  }
};

struct LinkBytes {
  double received = 0;
  double sent = 0;
};

// Of eth0 in the namespace of a process, as the kernel counts them.
LinkBytes BytesOfLink(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/net/dev");
  for (std::string line; std::getline(file, line);) {
    if (const std::size_t colon = line.find("eth0:"); colon != std::string::npos) {
      std::istringstream fields(line.substr(colon + 5));
      LinkBytes bytes;
      double skipped = 0;
      fields >> bytes.received;
      for (int field = 1; field < 8; ++field) {
        fields >> skipped;
      }
      fields >> bytes.sent;
      return bytes;
    }
  }
  return {};
}

TEST_F(VirtualNetworkClusterTest, MaypoleLocalReducesAcrossShapedLinks) {
  const EndedProcess ended = RunToEnd({PathOfBinary("maypole"),
                                       "local",
                                       "--nodes",
                                       "2",
                                       "--ranks-per-node",
                                       "2",
                                       "--netns",
                                       "--rate",
                                       "500mbit",
                                       "--",
                                       PathOfBinary("maypole_example_all_reduce")});
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("[0]"), HasSubstr("[3]")));
}

TEST_F(VirtualNetworkClusterTest, TheWireCarriesWhatTheFormulaSays) {
  constexpr std::uint32_t kNodes = 3;
  constexpr double kBytes = 24.0 * (1 << 20);
  constexpr double kExpected = 2 * kBytes * (kNodes - 1) / kNodes;
  TestCluster cluster({.nodes = kNodes, .use_namespaces = true, .bits_per_second = 1e9});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  const auto tensors = Tensors(sessions, static_cast<std::size_t>(kBytes) / sizeof(float));
  std::vector<maypole_agent_stats> before;
  std::vector<LinkBytes> links_before;
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    before.push_back(sessions[2 * node].AgentStats());
    links_before.push_back(BytesOfLink(cluster.agent(node).pid()));
  }
  const Stopwatch watch;
  ASSERT_THAT(AllReduceAll(sessions, tensors, {.algorithm = MAYPOLE_RING}), Each("ok"));
  EXPECT_GT(watch.Seconds(), kExpected * 8 / 1e9 * 0.9) << "faster than the links";
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    const maypole_agent_stats after = sessions[2 * node].AgentStats();
    const auto sent = static_cast<double>(after.wire_sent_bytes - before[node].wire_sent_bytes);
    const auto received =
        static_cast<double>(after.wire_received_bytes - before[node].wire_received_bytes);
    EXPECT_NEAR(sent, kExpected, 0.01 * kExpected);
    EXPECT_NEAR(received, kExpected, 0.01 * kExpected);
    const LinkBytes link = BytesOfLink(cluster.agent(node).pid());
    EXPECT_NEAR(link.sent - links_before[node].sent, sent, 0.04 * kExpected);
    EXPECT_NEAR(link.received - links_before[node].received, received, 0.04 * kExpected);
  }
  EXPECT_THAT(tensors[5].first(1000), Each(SumOfRanks(6)));
}

TEST_F(VirtualNetworkClusterTest, ALinkThatGoesDeadIsFoundByTheLeaseAndItsNodeNamed) {
  TestCluster cluster({.nodes = 3,
                       .agent_arguments = {"--peer-lease", "1s"},
                       .use_namespaces = true,
                       .bits_per_second = 1e9});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  std::atomic<int> ops = 0;
  std::atomic<double> down_at = 1e9;
  const Stopwatch watch;
  const auto reduce = [&](std::size_t rank) {
    const auto tensor = sessions[rank].Allocate<float>(1 << 20);
    std::string text = "ok";
    while (text == "ok") {
      text = TextOfError([&] { sessions[rank].AllReduce(tensor, {.name = "w"}).Wait(); });
      ++ops;
    }
    return std::pair(text, watch.Seconds());
  };
  std::vector<std::future<std::pair<std::string, double>>> running;
  for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
    running.push_back(std::async(std::launch::async, reduce, rank));
  }
  ASSERT_TRUE(Eventually([&] { return ops > 10; }));
  down_at = watch.Seconds();
  ASSERT_TRUE(
      cli::RunTool({"ip", "link", "set", "eth0", "down"}, "", cluster.network().node_namespace(1))
          .ok());
  for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
    const auto [text, at] = running[rank].get();
    EXPECT_LT(at - down_at, 1.5);
    EXPECT_THAT(text, StartsWith("peer lost: "));
    if (rank != 1) {
      EXPECT_THAT(text, AllOf(HasSubstr("node-1"), HasSubstr("[ranks=1;")));
    }
  }
}

TEST_F(VirtualNetworkClusterTest, AgentsThatCannotConnectToEachOtherSaySoWhenTheLeaseRunsOut) {
  TestCluster cluster(
      {.nodes = 2, .agent_arguments = {"--peer-lease", "1s"}, .use_namespaces = true});
  // What one sends to the other goes to a card that does not exist, as into a firewall.
  for (const std::uint32_t node : {0, 1}) {
    ASSERT_TRUE(cli::RunTool({"ip",
                              "neigh",
                              "replace",
                              cli::VirtualNetwork::NodeAddress(1 - node),
                              "lladdr",
                              "02:00:00:00:00:99",
                              "dev",
                              "eth0",
                              "nud",
                              "permanent"},
                             "",
                             cluster.network().node_namespace(node))
                    .ok());
  }
  // The job has waited in vain for its link to be measured.
  std::vector<Session> sessions = cluster.ConnectAll(1);
  const Stopwatch watch;
  const std::vector<std::string> texts = AllReduceAll(sessions, Tensors(sessions, 1000));
  EXPECT_LT(watch.Seconds(), 2.0);
  // Whoever is first blames the other, and the coordinator passes it on.
  EXPECT_THAT(texts,
              Each(AllOf(StartsWith("peer lost: "), HasSubstr("no sign of life for 1.0 s"))));
}

TEST_F(VirtualNetworkClusterTest, NoNamespaceOutlivesItsCluster) {
  const auto namespace_of = [](const std::string& process) {
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/" + process + "/ns/net", ignored).string();
  };
  std::string name;
  {
    TestCluster cluster({.nodes = 2, .use_namespaces = true});
    name = namespace_of(std::to_string(cluster.agent(1).pid()));
    ASSERT_NE(name, namespace_of("self"));
  }
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    EXPECT_NE(namespace_of(process.path().filename()), name);
  }
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    EXPECT_NE(std::filesystem::read_symlink(descriptor.path(), ignored).string(), name);
  }
}

}  // namespace
}  // namespace maypole::test
