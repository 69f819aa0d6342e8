#include "cli/virtual_network.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/child_process.h"

namespace maypole::cli {
namespace {

using ::testing::HasSubstr;

absl::Status Inside(int net_namespace, const std::string& script) {
  return RunTool({"sh", "-c", script}, "", net_namespace);
}

class VirtualNetworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) {
      GTEST_SKIP() << "network namespaces need root";
    }
  }
};

TEST_F(VirtualNetworkTest, EveryNodeHasItsAddressBehindAShapedLink) {
  const absl::StatusOr<VirtualNetwork> network = VirtualNetwork::Create({2, 1e9, ""});
  ASSERT_TRUE(network.ok()) << network.status();
  for (std::uint32_t node = 0; node < 2; ++node) {
    EXPECT_TRUE(
        Inside(network->node_namespace(node),
               "ip -br addr show eth0 | grep -q " + VirtualNetwork::NodeAddress(node) + "/24")
            .ok());
    EXPECT_TRUE(
        Inside(network->node_namespace(node), "tc qdisc show dev eth0 | grep -q 'tbf.*rate 1Gbit'")
            .ok());
    EXPECT_TRUE(
        Inside(network->switch_namespace(),
               "tc qdisc show dev port" + std::to_string(node) + " | grep -q 'tbf.*rate 1Gbit'")
            .ok());
  }
  EXPECT_FALSE(network->congestion_control().empty());
}

TEST_F(VirtualNetworkTest, LinksWithoutARateAreNotShaped) {
  const absl::StatusOr<VirtualNetwork> network = VirtualNetwork::Create({1, 0, ""});
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_TRUE(Inside(network->node_namespace(0), "! tc qdisc show dev eth0 | grep -q tbf").ok());
}

TEST_F(VirtualNetworkTest, WeComeBackToOurOwnNamespace) {
  const auto before = std::filesystem::read_symlink("/proc/self/ns/net");
  ASSERT_TRUE(VirtualNetwork::Create({1, 0, ""}).ok());
  EXPECT_EQ(std::filesystem::read_symlink("/proc/self/ns/net"), before);
}

TEST_F(VirtualNetworkTest, AnUnknownCongestionControlIsRefusedWithWhatIsAllowed) {
  const absl::Status status = VirtualNetwork::Create({1, 0, "nonsense"}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("'nonsense'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("reno"));
}

TEST_F(VirtualNetworkTest, TooManyNodesAreRefused) {
  EXPECT_FALSE(VirtualNetwork::Create({0, 0, ""}).ok());
  EXPECT_FALSE(VirtualNetwork::Create({251, 0, ""}).ok());
}

}  // namespace
}  // namespace maypole::cli
