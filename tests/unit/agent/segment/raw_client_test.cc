// Clients that keep no rule, against a real server. After each of them an honest client must find
// the agent well.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/src/agent_socket.h"
#include "client/src/session.h"
#include "proto/handshake.h"
#include "proto/segment_layout.h"
#include "proto/text.h"
#include "tests/unit/client/fake_agent.h"

namespace maypole::agent {
namespace {

using client::internal::AgentSocket;
using client::internal::ConnectSettings;
using client::internal::OpRequest;
using client::internal::Packet;
using client::internal::Session;
using testing::HasSubstr;

TimePoint Soon() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()) +
         std::chrono::seconds(10);
}

// Speaks the protocol by hand.
class RawClient {
 public:
  explicit RawClient(const std::string& path) { EXPECT_TRUE(socket_.Connect(path).ok()); }

  Outcome Send(const void* bytes, std::size_t count) { return socket_.Send(bytes, count); }

  template <typename Message>
  Outcome Send(const Message& message) {
    return socket_.Send(&message, sizeof(message));
  }

  void Join() {
    auto hello = MakeMessage<Hello>(MessageKind::kHello, kClientProtocol);
    hello.world_size = 1;
    hello.job_bytes = StoreText(hello.job, "raw");
    ASSERT_TRUE(Send(hello).ok());
    Packet packet;
    HelloReply reply;
    ASSERT_TRUE(socket_.ReceiveMessage(MessageKind::kHelloReply, Soon(), reply, packet).ok());
    ASSERT_EQ(reply.code, 0u) << reply.text;
    memory_ = MappedRegion::Map(packet.fds[0].get(), kControlBytes, MapAccess::kReadWrite);
    doorbell_ = std::move(packet.fds[1]);
    maypole::SessionReady ready;
    ASSERT_TRUE(socket_.ReceiveMessage(MessageKind::kSessionReady, Soon(), ready, packet).ok());
  }

  ControlSegment& control() { return *reinterpret_cast<ControlSegment*>(memory_.data()); }

  int doorbell() const { return doorbell_.get(); }

  void Ring() {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(doorbell_.get(), &one, sizeof(one)), 8);
  }

  void Enter(std::uint32_t slot, const SlotRequest& request) {
    Slot& entry = control().slots[slot % kSlotCount];
    entry.request = request;
    entry.state.store(static_cast<std::uint32_t>(SlotState::kSubmitted));
    ControlHeader& header = control().header;
    const std::uint64_t tail = header.submit_tail.load();
    header.submit_ring[tail % kRingEntries].store(slot);
    header.submit_tail.store(tail + 1);
    Ring();
  }

  // The refusal that arrives next; "" at the end of the stream.
  std::string ReadRefusal() {
    Packet packet;
    HelloReply reply;
    const Outcome outcome = socket_.ReceiveMessage(MessageKind::kHelloReply, Soon(), reply, packet);
    return outcome.ok() ? std::string(LoadText(reply.text, reply.text_bytes)) : "";
  }

  bool IsEnded() {
    Packet packet;
    Outcome outcome;
    do {
      outcome = socket_.Receive(packet, Soon());
    } while (outcome.ok());
    return outcome.code == ErrorCode::kAgentUnavailable;
  }

  std::string SessionError() {
    const ControlHeader& header = control().header;
    return header.session_code.load() == 0
               ? ""
               : std::string(LoadText(header.session_error, header.session_error_bytes));
  }

 private:
  AgentSocket socket_;
  MappedRegion memory_;
  UniqueFd doorbell_;
};

// An honest client still gets its all-reduce.
void ExpectWell(test::FakeAgent& agent) {
  ConnectSettings settings;
  settings.socket = agent.path();
  settings.job = "honest";
  settings.timeout = std::chrono::seconds(10);
  std::shared_ptr<Session> session;
  const Outcome connected = Session::Connect(settings, session);
  ASSERT_TRUE(connected.ok()) << connected.text;
  float value = 1;
  OpRequest request;
  request.data = &value;
  request.elements = 1;
  request.element_bytes = 4;
  request.reads = {0, 1};
  request.writes = {0, 1};
  client::internal::Op op;
  ASSERT_TRUE(session->Submit(request, op).ok());
  EXPECT_TRUE(session->Wait(op).ok()) << op.outcome.text;
  EXPECT_EQ(value, 2.0f);
  session->Close();
}

TEST(HostileClient, GarbageInsteadOfAHelloIsRefusedWithASentence) {
  test::FakeAgent agent;
  RawClient client(agent.path());
  ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\n\r\n", 18).ok());
  EXPECT_THAT(client.ReadRefusal(), HasSubstr("Maypole agent's socket"));
  EXPECT_TRUE(client.IsEnded());
  ExpectWell(agent);
}

TEST(HostileClient, RandomAndOversizedPacketsEndOnlyTheirOwnSession) {
  test::FakeAgent agent;
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    RawClient client(agent.path());
    if (i % 2 == 0) {
      client.Join();
    }
    std::vector<unsigned char> bytes(1 + random() % 3000);
    for (auto& byte : bytes) {
      byte = static_cast<unsigned char>(random());
    }
    if (i % 3 == 0 && bytes.size() >= sizeof(MessageHeader)) {  // so that it gets further
      const MessageHeader header = {kHandshakeMagic,
                                    static_cast<MessageKind>(random() % 12),
                                    kClientProtocol,
                                    static_cast<std::uint32_t>(bytes.size())};
      std::memcpy(bytes.data(), &header, sizeof(header));
    }
    client.Send(bytes.data(), bytes.size());
    if (i % 3 != 0) {
      EXPECT_TRUE(client.IsEnded());
    }
  }
  ExpectWell(agent);
  agent.Await<ClientGone>(101);
  agent.Do([](SegmentServer& server) { EXPECT_EQ(server.Sessions(), 0u); });
}

TEST(HostileClient, DescriptorsThatItSendsAreNotKept) {
  test::FakeAgent agent;
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const UniqueFd client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, agent.path().c_str());
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  auto hello = MakeMessage<Hello>(MessageKind::kHello, kClientProtocol);
  hello.world_size = 1;
  hello.job_bytes = StoreText(hello.job, "raw");
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec data{&hello, sizeof(hello)};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &pipe[1], sizeof(int));
  ASSERT_EQ(::sendmsg(client.get(), &header, 0), static_cast<ssize_t>(sizeof(hello)));
  ::close(pipe[1]);
  ASSERT_EQ(agent.Await<ClientHello>(1).size(), 1u);
  // Nobody holds the writing end any more, so reading ends at once.
  pollfd wait{pipe[0], POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 10'000), 1);
  EXPECT_NE(wait.revents & POLLHUP, 0);
  ::close(pipe[0]);
}

TEST(HostileClient, SlotsThatPointElsewhereAreAnsweredWithTheirError) {
  test::FakeAgent agent;
  RawClient client(agent.path());
  client.Join();
  SlotRequest request;
  request.segment = 77;
  request.elements = 1;
  client.Enter(0, request);
  request.dtype = 200;
  client.Enter(1, request);
  for (const auto& [slot, text] : {std::pair{0, "segment 77"}, {1, "dtype 200"}}) {
    const Slot& entry = client.control().slots[slot];
    const auto give_up = Soon();
    while (entry.state.load() != static_cast<std::uint32_t>(SlotState::kDone) &&
           std::chrono::steady_clock::now() < give_up) {
      std::this_thread::yield();
    }
    EXPECT_EQ(entry.outcome.code, static_cast<std::uint32_t>(ErrorCode::kInvalidArgument));
    EXPECT_THAT(std::string(LoadText(entry.outcome.error, entry.outcome.error_bytes)),
                HasSubstr(text));
  }
  EXPECT_EQ(client.SessionError(), "");
  EXPECT_EQ(agent.Await<Submission>(0).size(), 0u);
  ExpectWell(agent);
}

TEST(HostileClient, ARingThatJumpsEndsTheSessionWithItsError) {
  test::FakeAgent agent;
  RawClient client(agent.path());
  client.Join();
  client.control().header.submit_tail.store(~std::uint64_t{0});
  client.Ring();
  EXPECT_TRUE(client.IsEnded());
  EXPECT_THAT(client.SessionError(), HasSubstr("jumped from 0 to 18446744073709551615"));
  const auto gone = agent.Await<ClientGone>(1);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_TRUE(gone[0].died);
  EXPECT_THAT(gone[0].reason, HasSubstr("jumped"));
  ExpectWell(agent);
}

TEST(HostileClient, ASlotNumberOutsideTheTableEndsTheSession) {
  test::FakeAgent agent;
  RawClient client(agent.path());
  client.Join();
  client.Enter(0x80000000u, {});
  EXPECT_TRUE(client.IsEnded());
  EXPECT_THAT(client.SessionError(), HasSubstr("slot 2147483648 of 1024"));
  ExpectWell(agent);
}

TEST(HostileClient, ADoorbellThatItDrainsAndMakesBlockingStopsNobody) {
  test::FakeAgent agent;
  RawClient client(agent.path());
  client.Join();
  ASSERT_EQ(::fcntl(client.doorbell(), F_SETFL, 0), 0);  // blocking: the agent shares this flag
  client.Ring();
  std::uint64_t drained = 0;
  EXPECT_EQ(::read(client.doorbell(), &drained, sizeof(drained)), 8);
  ExpectWell(agent);
}

TEST(HostileClient, ADoorbellThatRingsForNothingIsTakenAway) {
  test::FakeAgent agent;
  RawClient client(agent.path());
  client.Join();
  const auto give_up = Soon();
  while (client.SessionError().empty() && std::chrono::steady_clock::now() < give_up) {
    client.Ring();
    std::this_thread::yield();
  }
  EXPECT_THAT(client.SessionError(), HasSubstr("rang"));
  ExpectWell(agent);
}

TEST(HostileClient, RequestsWithoutReadingTheRepliesEndTheSession) {
  test::FakeAgent agent;
  RawClient client(agent.path());
  client.Join();
  const auto request = MakeMessage<StatsRequest>(MessageKind::kStatsRequest, kClientProtocol);
  while (client.Send(request).ok()) {
  }
  const auto gone = agent.Await<ClientGone>(1);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_THAT(gone[0].reason, HasSubstr("does not read"));
  ExpectWell(agent);
}

TEST(HostileClient, AFloodOfStrangersCostsABoundedNumberOfSessions) {
  test::FakeAgent agent;
  std::vector<std::unique_ptr<RawClient>> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(std::make_unique<RawClient>(agent.path()));
  }
  ExpectWell(agent);
  agent.Do([](SegmentServer& server) { EXPECT_LE(server.Sessions(), 129u); });
}

TEST(HostileClient, MemoryBeforeAdmissionIsRefused) {
  test::FakeAgent::Hooks hooks;
  hooks.on_ready = nullptr;
  test::FakeAgent agent(hooks);
  RawClient client(agent.path());
  auto hello = MakeMessage<Hello>(MessageKind::kHello, kClientProtocol);
  hello.world_size = 1;
  hello.job_bytes = StoreText(hello.job, "raw");
  ASSERT_TRUE(client.Send(hello).ok());
  ASSERT_TRUE(client.Send(hello).ok());  // a second hello is no request
  EXPECT_TRUE(client.IsEnded());
  EXPECT_EQ(agent.Await<ClientGone>(1).size(), 1u);
}

TEST(SegmentServer, TellsClientsBeyondItsLimit) {
  SegmentServerOptions options;
  options.sessions_max = 1;
  test::FakeAgent agent(test::FakeAgent::Hooks(), options);
  RawClient first(agent.path());
  first.Join();
  RawClient second(agent.path());
  EXPECT_THAT(second.ReadRefusal(), HasSubstr("1 sessions"));
}

TEST(SegmentServer, AStrangerThatSaysNothingIsEndedInTime) {
  test::FakeAgent agent;
  RawClient stranger(agent.path());
  EXPECT_THAT(stranger.ReadRefusal(), HasSubstr("no hello"));
  EXPECT_TRUE(stranger.IsEnded());
}

}  // namespace
}  // namespace maypole::agent
