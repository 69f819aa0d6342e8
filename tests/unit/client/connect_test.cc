#include <dirent.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/unique_fd.h"
#include "proto/handshake.h"
#include "proto/segment_layout.h"
#include "proto/text.h"
#include "tests/unit/client/fake_agent.h"
#include "tests/unit/client/test_session.h"

namespace maypole::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

std::size_t OpenDescriptors() {
  std::size_t count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) {
    ++count;
  }
  ::closedir(directory);
  return count;
}

std::string ErrorOfConnecting(const std::string& path, maypole_status expected) {
  SessionPtr session;
  EXPECT_EQ(TryConnect(path, session, 0, 1, 0.3), expected);
  EXPECT_EQ(session, nullptr);
  return maypole_last_error();
}

TEST(Connect, TellsWhoThisRankIs) {
  FakeAgent agent;
  SessionPtr session;
  ASSERT_EQ(TryConnect(agent.path(), session, 2, 5), MAYPOLE_OK) << maypole_last_error();
  EXPECT_EQ(maypole_rank(session.get()), 2);
  EXPECT_EQ(maypole_world_size(session.get()), 5);
  EXPECT_EQ(maypole_local_rank(session.get()), 2);
  EXPECT_EQ(maypole_local_world_size(session.get()), 5);
  EXPECT_EQ(maypole_nodes(session.get()), 1);
  const auto hello = agent.Await<agent::ClientHello>(1);
  ASSERT_EQ(hello.size(), 1u);
  EXPECT_EQ(hello[0].job, "job");
  EXPECT_EQ(hello[0].pid, ::getpid());
}

TEST(Connect, ClosingIsNotDying) {
  FakeAgent agent;
  Connect(agent.path()).reset();
  const auto gone = agent.Await<agent::ClientGone>(1);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_FALSE(gone[0].died) << gone[0].reason;
}

TEST(Connect, NoAgentIsSaidWithThePathAndTheCommand) {
  const auto directory = MakeTempDirectory();
  const std::string path = directory / "agent.sock";
  EXPECT_THAT(ErrorOfConnecting(path, MAYPOLE_AGENT_UNAVAILABLE),
              AllOf(HasSubstr(path), HasSubstr("maypole-agent --socket " + path)));
  std::ofstream(path) << "a file";
  EXPECT_THAT(ErrorOfConnecting(path, MAYPOLE_AGENT_UNAVAILABLE), HasSubstr("not a socket"));
  EXPECT_THAT(ErrorOfConnecting(path + "/below", MAYPOLE_AGENT_UNAVAILABLE),
              HasSubstr("no such file"));
  std::filesystem::remove_all(directory);
}

// A socket file to which `backlog` connections can be made; nobody takes them.
UniqueFd ListenAt(const std::string& path, int type, int backlog) {
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  if (backlog > 0) {
    EXPECT_EQ(::listen(fd.get(), backlog), 0);
  }
  return fd;
}

TEST(Connect, ADeadOrForeignSocketIsNamedAsSuch) {
  const auto directory = MakeTempDirectory();
  const std::string dead = directory / "dead.sock";
  ListenAt(dead, SOCK_SEQPACKET, 1).Reset();
  EXPECT_THAT(ErrorOfConnecting(dead, MAYPOLE_AGENT_UNAVAILABLE), HasSubstr("has ended"));
  const std::string stream = directory / "stream.sock";
  const UniqueFd other = ListenAt(stream, SOCK_STREAM, 1);
  EXPECT_THAT(ErrorOfConnecting(stream, MAYPOLE_AGENT_UNAVAILABLE),
              HasSubstr("another program's socket"));
  std::filesystem::remove_all(directory);
}

TEST(Connect, AnAgentThatSaysNothingIsGivenUpAfterTheTimeout) {
  const auto directory = MakeTempDirectory();
  const std::string path = directory / "mute.sock";
  const UniqueFd mute = ListenAt(path, SOCK_SEQPACKET, 1);
  EXPECT_THAT(ErrorOfConnecting(path, MAYPOLE_TIMEOUT), HasSubstr("not answered"));
  std::filesystem::remove_all(directory);
}

// Answers one hello with `reply`, as an agent of another kind would.
std::string ErrorOfReply(const void* reply, std::size_t bytes) {
  const auto directory = MakeTempDirectory();
  const std::string path = directory / "other.sock";
  const UniqueFd listener = ListenAt(path, SOCK_SEQPACKET, 1);
  std::thread other([&] {
    const UniqueFd client(::accept(listener.get(), nullptr, nullptr));
    char hello[kMessageBytesMax];
    EXPECT_GT(::recv(client.get(), hello, sizeof(hello), 0), 0);
    EXPECT_EQ(::send(client.get(), reply, bytes, 0), static_cast<ssize_t>(bytes));
  });
  std::string error = ErrorOfConnecting(path, MAYPOLE_FAILED_PRECONDITION);
  other.join();
  std::filesystem::remove_all(directory);
  return error;
}

TEST(Connect, AnAgentOfAnotherProtocolIsNamedWithBothVersions) {
  auto reply = MakeMessage<HelloReply>(MessageKind::kHelloReply, kClientProtocol + 1);
  StoreText(reply.version, "9.9.9");
  EXPECT_THAT(ErrorOfReply(&reply, sizeof(reply)),
              AllOf(HasSubstr("9.9.9"),
                    HasSubstr(std::string("version ") + maypole_version()),
                    HasSubstr("protocol " + std::to_string(kClientProtocol + 1))));
  EXPECT_THAT(ErrorOfReply("HTTP/1.1 400", 12), HasSubstr("does not speak"));
}

TEST(Connect, ARefusalIsPassedOnInTheAgentsWords) {
  FakeAgent::Hooks hooks;
  hooks.on_hello = [](const auto&) {
    return Outcome{ErrorCode::kInvalidArgument, "rank 0 of job 'job' is here already", ""};
  };
  FakeAgent agent(hooks);
  EXPECT_EQ(ErrorOfConnecting(agent.path(), MAYPOLE_INVALID_ARGUMENT),
            "rank 0 of job 'job' is here already");
  agent.Do([](agent::SegmentServer& server) { EXPECT_EQ(server.Sessions(), 0u); });
}

TEST(Connect, AJobThatNeverFormsIsPassedOnInTheAgentsWords) {
  FakeAgent::Hooks hooks;
  hooks.on_ready = [](const agent::ClientHello& hello) {
    agent::SessionReady ready;
    ready.session = hello.session;
    ready.outcome = {ErrorCode::kFailedPrecondition, "two world sizes: 1 and 2", ""};
    return ready;
  };
  FakeAgent agent(hooks);
  EXPECT_EQ(ErrorOfConnecting(agent.path(), MAYPOLE_FAILED_PRECONDITION),
            "two world sizes: 1 and 2");
  EXPECT_EQ(agent.Await<agent::ClientGone>(1).size(), 1u);
}

TEST(Connect, WaitingForTheOtherRanksEndsAtTheTimeout) {
  FakeAgent::Hooks hooks;
  hooks.on_ready = nullptr;
  FakeAgent agent(hooks);
  SessionPtr session;
  EXPECT_EQ(TryConnect(agent.path(), session, 1, 4, 0.2), MAYPOLE_TIMEOUT);
  EXPECT_THAT(maypole_last_error(),
              HasSubstr("rank 1 has waited 0.2 s for job \"job\" (world size 4) to form"));
  EXPECT_EQ(agent.Await<agent::ClientGone>(1).size(), 1u);
}

TEST(Connect, TheEndOfTheAgentWhileTheJobFormsIsAnError) {
  FakeAgent::Hooks hooks;
  hooks.on_ready = nullptr;
  FakeAgent agent(hooks);
  std::thread killer([&] {
    agent.Await<agent::ClientHello>(1);
    agent.Stop();
  });
  SessionPtr session;
  EXPECT_EQ(TryConnect(agent.path(), session), MAYPOLE_AGENT_UNAVAILABLE);
  killer.join();
}

TEST(Connect, LeavesNoDescriptorBehind) {
  FakeAgent agent;
  const std::size_t before = OpenDescriptors();
  for (int i = 0; i < 20; ++i) {
    const SessionPtr session = Connect(agent.path());
    AllocateFloats(session, 1 << 20);
    float value = 1;
    OpPtr op = AllReduce(session, &value, 1);
    EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_OK);
  }
  SessionPtr refused;
  agent.Await<agent::ClientGone>(20);
  agent.Do([](agent::SegmentServer& server) {
    EXPECT_EQ(server.Sessions(), 0u);
    EXPECT_EQ(server.SegmentBytes(), 0u);
  });
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST(Connect, NullArgumentsAreRefused) {
  EXPECT_EQ(maypole_connect(nullptr, nullptr), MAYPOLE_INVALID_ARGUMENT);
  maypole_close(nullptr);
  maypole_leave(nullptr);
  EXPECT_EQ(maypole_rank(nullptr), -1);
  EXPECT_STREQ(maypole_status_name(MAYPOLE_PEER_LOST), "peer lost");
  EXPECT_STREQ(maypole_status_name(static_cast<maypole_status>(77)), "unknown");
}

}  // namespace
}  // namespace maypole::test
