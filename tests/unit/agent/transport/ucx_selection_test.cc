#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/transport/ucx/selection.h"

namespace maypole::agent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<UcxResource> kMachine = {{"self", "memory0", false},
                                           {"tcp", "lo", true},
                                           {"tcp", "eth0", true},
                                           {"posix", "memory", false},
                                           {"rc_mlx5", "mlx5_0:1", true},
                                           {"dc_mlx5", "mlx5_0:1", true},
                                           {"ud_verbs", "mlx5_0:1", true}};

std::string Refusal(const std::string& transports, const std::string& devices) {
  const auto selection = SelectUcx(transports, devices, kMachine);
  EXPECT_EQ(selection.status().code(), absl::StatusCode::kInvalidArgument)
      << transports << " on " << devices;
  return std::string(selection.status().message());
}

TEST(SelectUcx, AutoTakesWhatTheDevicesOffer) {
  const auto tcp = SelectUcx("auto", "eth0", kMachine);
  ASSERT_TRUE(tcp.ok()) << tcp.status();
  EXPECT_EQ(tcp->transports, "tcp,self");
  EXPECT_EQ(tcp->devices, "eth0");
  EXPECT_TRUE(tcp->has_tcp);
  const auto rdma = SelectUcx("auto", "mlx5_0:1", kMachine);
  ASSERT_TRUE(rdma.ok()) << rdma.status();
  EXPECT_EQ(rdma->transports, "rc,ud,dc,self");
  EXPECT_FALSE(rdma->has_tcp);
  const auto both = SelectUcx("auto", "mlx5_0:1, eth0", kMachine);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->transports, "rc,ud,dc,tcp,self");
  EXPECT_EQ(both->devices, "mlx5_0:1,eth0");
}

TEST(SelectUcx, AnExplicitChoiceIsTakenAsItIs) {
  const auto selection = SelectUcx("tcp", "mlx5_0:1,eth0", kMachine);
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_EQ(selection->transports, "tcp,self");
}

TEST(SelectUcx, ADeviceHasToBeNamed) {
  EXPECT_THAT(Refusal("auto", ""), AllOf(HasSubstr("--interface"), HasSubstr("tcp on eth0")));
  EXPECT_THAT(Refusal("auto", " , "), HasSubstr("--interface"));
}

TEST(SelectUcx, AnUnknownDeviceIsRefusedWithWhatThereIs) {
  EXPECT_THAT(
      Refusal("auto", "eth0,eth7"),
      AllOf(HasSubstr("--interface"), HasSubstr("\"eth7\""), HasSubstr("tcp on lo, tcp on eth0")));
  EXPECT_THAT(Refusal("auto", "memory"), HasSubstr("\"memory\""));  // shared memory is no device
}

TEST(SelectUcx, SharedMemoryAndUnknownTransportsAreRefused) {
  for (const std::string name :
       {"all", "sm", "shm", "posix", "sysv", "cma", "xpmem", "^tcp", "TCP", "rc_mlx5"}) {
    EXPECT_THAT(Refusal("tcp," + name, "eth0"), AllOf(HasSubstr("--ucx-tls"), HasSubstr(name)));
  }
}

TEST(SelectUcx, ATransportThatTheDevicesLackIsRefused) {
  EXPECT_THAT(Refusal("rc,tcp", "eth0"),
              AllOf(HasSubstr("\"rc\""), HasSubstr("rc_mlx5 on mlx5_0:1")));
  EXPECT_THAT(Refusal("tcp", "mlx5_0:1"), HasSubstr("\"tcp\""));
}

TEST(SelectUcx, AtLeastOneTransportHasToReachOthers) {
  EXPECT_THAT(Refusal("self", "eth0"), HasSubstr("--ucx-tls"));
  EXPECT_THAT(Refusal("", "eth0"), HasSubstr("--ucx-tls"));
}

TEST(SelectUcx, AMachineWithoutNetworkSaysSo) {
  const auto selection = SelectUcx("auto", "eth0", {{"self", "memory0", false}});
  EXPECT_THAT(std::string(selection.status().message()), HasSubstr("nothing"));
}

}  // namespace
}  // namespace maypole::agent
