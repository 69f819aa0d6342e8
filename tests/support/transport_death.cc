// The part of the transport contract whose peers are processes, to be killed.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

#include "common/unique_fd.h"
#include "tests/support/transport_contract.h"

namespace maypole::agent {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportDeath);

namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::uint64_t kLarge = 4 << 20;

enum class Role { kStreams, kSwallows, kIgnores, kChatters };

void WriteAddress(int fd, const std::string& address) {
  ASSERT_EQ(::send(fd, address.data(), address.size(), 0), static_cast<ssize_t>(address.size()));
}

std::string ReadAddress(int fd) {
  std::string address(4096, '\0');
  const ssize_t bytes = ::recv(fd, address.data(), address.size(), 0);
  address.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return address;
}

// Runs until it is killed.
[[noreturn]] void PeerMain(const TransportFactory& factory, int fd, Role role) {
  ::alarm(60);
  Station station(factory);
  WriteAddress(fd, station.transport().Address());
  if (!station.transport().Connect(1, ReadAddress(fd)).ok()) {
    ::_exit(3);
  }
  station.Send(1, 0, 8);
  std::size_t handled = 0;
  while (true) {
    station.Poll();
    if (role == Role::kStreams && station.in_flight() < 4) {
      station.Send(1, 1, kLarge);
    }
    if (role == Role::kChatters && station.in_flight() < 8) {
      station.Send(1, 1, 200 << 10);
    }
    for (; role != Role::kIgnores && handled < station.arrivals.size(); ++handled) {
      if (station.arrivals[handled].header.payload_bytes > 0) {
        station.Receive(handled);
      }
    }
  }
}

class Child {
 public:
  // Before this process has a transport: forking with UCX's thread running is no good idea.
  Child(const TransportFactory& factory, Role role) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    fd_.Reset(pair[0]);
    UniqueFd theirs(pair[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      PeerMain(factory, theirs.get(), role);
    }
  }

  ~Child() { Kill(); }

  int fd() const { return fd_.get(); }

  void Stop() {
    ::kill(pid_, SIGSTOP);
    EXPECT_EQ(::waitpid(pid_, nullptr, WUNTRACED), pid_);
  }

  void Kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
    }
    pid_ = -1;
  }

 private:
  UniqueFd fd_;
  pid_t pid_ = -1;
};

TEST_P(TransportDeath, AKilledPeerIsReportedWithinASecondWhateverIsInFlight) {
  for (const Role role : {Role::kStreams, Role::kSwallows, Role::kIgnores}) {
    SCOPED_TRACE(static_cast<int>(role));
    Child child(GetParam(), role);
    Station station(GetParam());
    const std::string address = ReadAddress(child.fd());
    WriteAddress(child.fd(), station.transport().Address());
    ASSERT_TRUE(station.transport().Connect(1, address).ok());
    ASSERT_TRUE(PollUntil({&station}, [&] { return !station.arrivals.empty(); }));
    station.Drop(0);
    // Sends that it swallows or leaves lying, and what it streams: two receives under way, the
    // others lying here.
    for (int i = 0; i < 8; ++i) {
      station.Send(1, 1, i % 2 == 0 ? kLarge : 1000);
    }
    const std::size_t streamed = role == Role::kStreams ? 4 : 0;
    ASSERT_TRUE(PollUntil({&station}, [&] { return station.arrivals.size() > streamed; }));
    std::vector<TransferToken> receives;
    for (std::size_t i = 1; i <= streamed / 2; ++i) {
      receives.push_back(station.Receive(i));
    }
    const auto killed_at = steady_clock::now();
    child.Kill();
    ASSERT_TRUE(
        PollUntil({&station}, [&] { return !station.losses.empty() && station.in_flight() == 0; }));
    EXPECT_LT(steady_clock::now() - killed_at, 1s);
    EXPECT_EQ(station.losses.size(), 1U);
    EXPECT_FALSE(station.losses[0].text.empty());
    for (std::size_t i = streamed / 2 + 1; i < station.arrivals.size(); ++i) {
      receives.push_back(station.Receive(i));
    }
    ASSERT_TRUE(PollUntil({&station}, [&] { return station.in_flight() == 0; }));
    EXPECT_EQ(station.losses.size(), 1U);
    EXPECT_FALSE(station.transport().EventFd() < 0);
  }
}

// The survivor finds the reset with its own send, behind data that it can still read: there
// UCX 1.13 aborts if it sends without a copy.
TEST_P(TransportDeath, AKillThatASendMeetsFirstIsSurvived) {
  for (int round = 0; round < 5; ++round) {
    Child child(GetParam(), Role::kChatters);
    Station station(GetParam());
    const std::string address = ReadAddress(child.fd());
    WriteAddress(child.fd(), station.transport().Address());
    ASSERT_TRUE(station.transport().Connect(1, address).ok());
    ASSERT_TRUE(PollUntil({&station}, [&] { return station.arrivals.size() > 10; }));
    // It fills our socket; nothing that we could wait for tells when.
    std::this_thread::sleep_for(50ms);
    child.Stop();
    for (std::uint32_t i = 0; i < 100; ++i) {
      station.Send(1, i, 200 << 10);
    }
    child.Kill();
    ASSERT_TRUE(
        PollUntil({&station}, [&] { return !station.losses.empty() && station.in_flight() == 0; }));
  }
}

// A peer that knows us while we do not know it (yet) must not hurt us by dying.
TEST_P(TransportDeath, ADyingStrangerIsSurvived) {
  Child child(GetParam(), Role::kStreams);
  Station station(GetParam());
  ReadAddress(child.fd());
  WriteAddress(child.fd(), station.transport().Address());
  ASSERT_TRUE(PollUntil({&station}, [&] { return station.arrivals.size() >= 4; }));
  const TransferToken first = station.Receive(1);
  child.Kill();
  std::vector<TransferToken> late;
  for (std::size_t i = 2; i < station.arrivals.size(); ++i) {
    late.push_back(station.Receive(i));
  }
  EXPECT_TRUE(PollUntil({&station}, [&] { return station.is_done(first); }));
  EXPECT_TRUE(PollUntil({&station}, [&] { return station.in_flight() == 0; }));
}

// Sleeping while it happens: the loss itself has to wake us.
TEST_P(TransportDeath, ALossWakesASleeper) {
  Child child(GetParam(), Role::kIgnores);
  Station station(GetParam());
  const std::string address = ReadAddress(child.fd());
  WriteAddress(child.fd(), station.transport().Address());
  ASSERT_TRUE(station.transport().Connect(1, address).ok());
  ASSERT_TRUE(PollUntil({&station}, [&] { return !station.arrivals.empty(); }));
  const auto sleep_once = [&](int timeout_ms) {
    while (station.Poll() || !station.transport().Arm()) {
    }
    if (!station.losses.empty()) {
      return 0;
    }
    pollfd wait = {station.transport().EventFd(), POLLIN, 0};
    return ::poll(&wait, 1, timeout_ms);
  };
  while (sleep_once(100) == 1) {
  }
  child.Kill();
  const auto killed_at = steady_clock::now();
  while (station.losses.empty() && steady_clock::now() - killed_at < 5s) {
    sleep_once(1000);
  }
  EXPECT_LT(steady_clock::now() - killed_at, 1s);
  EXPECT_EQ(station.losses.size(), 1U);
}

}  // namespace
}  // namespace maypole::agent
