#include "agent/transport/ucx/ucx_transport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/transport/ucx/process.h"
#include "agent/transport/ucx/resources.h"
#include "common/unique_fd.h"
#include "tests/support/transport_contract.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace maypole::agent {
namespace {

using testing::HasSubstr;

UcxTransportOptions Local() {
  UcxTransportOptions options;
  options.devices = "lo";
  options.port = 0;
  return options;
}

std::unique_ptr<Transport> MakeLocal() {
  auto transport = UcxTransport::Create(Local());
  if (!transport.ok()) {
    ADD_FAILURE() << transport.status();
    return nullptr;
  }
  return *std::move(transport);
}

INSTANTIATE_TEST_SUITE_P(Ucx,
                         TransportContract,
                         testing::Values(TransportFactory{"ucx", MakeLocal}));
INSTANTIATE_TEST_SUITE_P(Ucx, TransportDeath, testing::Values(TransportFactory{"ucx", MakeLocal}));

// UCX 1.13 itself leaks 600 bytes when a port is taken.
absl::Status CreateInVain(const UcxTransportOptions& options) {
#if defined(__SANITIZE_ADDRESS__)
  const __lsan::ScopedDisabler disabler;
#endif
  return UcxTransport::Create(options).status();
}

// A free port of the loopback interface, held for as long as the descriptor is open.
std::uint16_t TakePort(UniqueFd& socket) {
  socket.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
  EXPECT_EQ(::listen(socket.get(), 1), 0);
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  return ntohs(address.sin_port);
}

TEST(UcxTransport, AnUnknownDeviceIsRefusedAtStart) {
  UcxTransportOptions options = Local();
  options.devices = "eth99";
  const absl::Status status = UcxTransport::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("eth99"), HasSubstr("tcp on lo")));
}

TEST(UcxTransport, APortInUseIsNamedAndAFreeOneIsTaken) {
  UcxTransportOptions options = Local();
  UniqueFd holder;
  options.port = TakePort(holder);
  const absl::Status status = CreateInVain(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("--peer-port"), HasSubstr(std::to_string(options.port))));
  holder.Reset();
  const auto first = UcxTransport::Create(options);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(CreateInVain(options).code(), absl::StatusCode::kResourceExhausted);
}

// Without our hand on UCX's listener, half of these ends would leave the port in TIME_WAIT for a
// minute.
TEST(UcxTransport, AFixedPortIsFreeAgainAtOnce) {
  UcxTransportOptions options = Local();
  UniqueFd holder;
  options.port = TakePort(holder);
  holder.Reset();
  const auto make_fixed = [&] {
    auto transport = UcxTransport::Create(options);
    EXPECT_TRUE(transport.ok()) << transport.status();
    return std::unique_ptr<Transport>(transport.ok() ? *std::move(transport) : nullptr);
  };
  for (int round = 0; round < 20; ++round) {
    Station fixed({"fixed", make_fixed});
    ASSERT_FALSE(HasFailure());
    Station other({"ucx", MakeLocal});
    ASSERT_TRUE(fixed.transport().Connect(1, other.transport().Address()).ok());
    ASSERT_TRUE(other.transport().Connect(1, fixed.transport().Address()).ok());
    other.Send(1, 0, 8);
    while (fixed.arrivals.empty()) {
      fixed.Poll();
      other.Poll();
    }
    fixed.Drop(0);
    // What it said before it ended arrives.
    const TransferToken last = fixed.Send(1, 7, 1000);
    while (!fixed.is_done(last)) {
      fixed.Poll();
    }
    fixed.Destroy();
    while (other.losses.empty()) {
      other.Poll();
    }
    ASSERT_EQ(other.arrivals.size(), 1U);
    EXPECT_EQ(other.arrivals[0].header.ordinal, 7U);
    other.Drop(0);
  }
}

TEST(UcxTransport, APayloadAboveTheLimitIsRefusedAndCounted) {
  const auto make_small = [] {
    UcxTransportOptions options = Local();
    options.payload_bytes_max = 1000;
    return std::unique_ptr<Transport>(*UcxTransport::Create(options));
  };
  Station right({"small", make_small});
  Station left({"ucx", MakeLocal});
  ASSERT_TRUE(left.transport().Connect(1, right.transport().Address()).ok());
  left.Send(1, 0, 1001);
  left.Send(1, 1, 1 << 20);
  left.Send(1, 2, 1000);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while ((right.arrivals.empty() || right.transport().Counters().refused_frames < 2 ||
          left.in_flight() > 0) &&
         std::chrono::steady_clock::now() < deadline) {
    left.Poll();
    right.Poll();
  }
  EXPECT_EQ(right.transport().Counters().refused_frames, 2U);
  ASSERT_EQ(right.arrivals.size(), 1U);
  EXPECT_EQ(right.arrivals[0].header.ordinal, 2U);
  EXPECT_EQ(left.in_flight(), 0U);
  right.Drop(0);
}

// Nobody listens any more where the address points to: Connect must not block, the loss comes as an
// event.
TEST(UcxTransport, AnAddressWhereNobodyListensIsALossAndNoBlock) {
  Station left({"ucx", MakeLocal});
  const std::string address = MakeLocal()->Address();
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = left.transport().Connect(1, address);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
  if (!status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return;
  }
  left.Send(1, 0, 10);
  while (left.losses.empty() &&
         std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
    left.Poll();
  }
  ASSERT_EQ(left.losses.size(), 1U);
  while (left.in_flight() > 0 &&
         std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
    left.Poll();
  }
  EXPECT_EQ(left.in_flight(), 0U);
}

TEST(UcxTransport, ResourcesIncludeTheLoopbackInterface) {
  const auto resources = ListUcxResources();
  EXPECT_TRUE(std::ranges::any_of(resources, [](const UcxResource& resource) {
    return resource.transport == "tcp" && resource.device == "lo" && resource.is_network;
  }));
}

// In a child: a crash must end the process by its signal, as without UCX.
TEST(UcxProcessDeathTest, CrashesEndTheProcessBySignal) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own signal handlers end the process otherwise";
#endif
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  for (const int signal_number : {SIGFPE, SIGILL, SIGHUP}) {
    EXPECT_EXIT(
        {
          ReclaimProcessFromUcx();
          ::raise(signal_number);
        },
        testing::KilledBySignal(signal_number),
        "");
  }
}

}  // namespace
}  // namespace maypole::agent
