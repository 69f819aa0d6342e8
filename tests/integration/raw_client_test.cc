// Clients that speak wrongly to a real agent get an answer; the agent and its other clients go on.
// The many ways to be wrong: tests/unit/agent/segment.
#include "tests/support/raw_client.h"

#include <gmock/gmock.h>

#include "proto/text.h"
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

// A job that runs before, during and after what the stranger does.
class RawClientTest : public IntegrationTest {
 protected:
  void TearDown() override {
    EXPECT_THAT(AllReduceAll(sessions_, Tensors(sessions_, 100)), Each("ok"));
    sessions_.clear();
    cluster_.reset();
    IntegrationTest::TearDown();
  }

  // The agent's answer to a first packet.
  std::string AnswerTo(const void* packet, std::size_t bytes) {
    RawClient client(cluster_->SocketOf(0));
    client.Send(packet, bytes);
    const auto reply = client.Receive<HelloReply>();
    const bool is_closed = !client.Receive<HelloReply>();
    return !reply ? "no answer"
                  : std::string(LoadText(reply->text, reply->text_bytes)) +
                        (is_closed ? "" : " (still open)");
  }

  std::unique_ptr<TestCluster> cluster_ = std::make_unique<TestCluster>(ClusterOptions{.nodes = 1});
  std::vector<Session> sessions_ = cluster_->ConnectAll(2);
};

TEST_F(RawClientTest, OlderAndNewerClientsAreRefusedWithBothVersions) {
  for (const std::uint32_t protocol : {kClientProtocol - 1, kClientProtocol + 1}) {
    Hello hello = RawClient::HelloOf("other", 0, 1);
    hello.header.protocol = protocol;
    EXPECT_THAT(
        AnswerTo(&hello, sizeof hello),
        AllOf(HasSubstr("client (version 0.0.1) speaks protocol " + std::to_string(protocol) + ","),
              HasSubstr(std::string("agent (version ") + maypole_version() + ") speaks protocol " +
                        std::to_string(kClientProtocol) + ":"),
              Not(HasSubstr("still open"))));
  }
}

TEST_F(RawClientTest, TruncatedAndForeignHandshakesAreTurnedAway) {
  const Hello hello = RawClient::HelloOf("other", 0, 1);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{16}, sizeof hello - 1}) {
    EXPECT_THAT(AnswerTo(&hello, bytes),
                AllOf(Not(HasSubstr("no answer")), Not(HasSubstr("still open"))));
  }
  const std::string foreign = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_THAT(AnswerTo(foreign.data(), foreign.size()), HasSubstr("Maypole agent's socket"));
  RawClient leaves_at_once(cluster_->SocketOf(0));
}

TEST_F(RawClientTest, ARankOutsideItsWorldIsRefusedByTheAgentToo) {
  const Hello hello = RawClient::HelloOf("other", 2, 2);
  EXPECT_THAT(AnswerTo(&hello, sizeof hello), HasSubstr("rank 2 is not below the world size 2"));
}

TEST_F(RawClientTest, SlotsThatLieGetTheirErrorAndTheSessionGoesOn) {
  RawClient client(cluster_->SocketOf(0));
  const std::uint32_t segment = client.Join("liar", 4096);
  const SlotRequest good = {.dtype = 0, .segment = segment, .elements = 1024};
  const auto with = [&](auto change) {
    SlotRequest request = good;
    change(request);
    return client.Submit(request);
  };
  const auto refused = [](const std::string& words) {
    return AllOf(StartsWith("invalid argument: "), HasSubstr(words));
  };
  EXPECT_THAT(with([](auto& r) { r.elements = 1025; }), refused("outside segment"));
  EXPECT_THAT(with([](auto& r) { r.offset = 4; }), refused("outside segment"));
  EXPECT_THAT(with([](auto& r) { r.elements = ~std::uint64_t{0}; }), refused("outside segment"));
  EXPECT_THAT(with([](auto& r) { r.segment = 77; }), refused("segment 77 does not exist"));
  EXPECT_THAT(with([](auto& r) { r.dtype = 99; }), refused("dtype 99"));
  EXPECT_THAT(with([](auto& r) { r.reduction = 99; }), refused("reduction 99"));
  EXPECT_THAT(with([](auto& r) { r.flags = 1u << 31; }), refused("flags 2147483648"));
  EXPECT_THAT(with([](auto& r) { r.name_bytes = 300; }), refused("name length 300"));
  EXPECT_THAT(with([](auto&) {}), StartsWith("ok: "));
}

class LimitsTest : public IntegrationTest {};

TEST_F(LimitsTest, MemoryBeyondTheLimitOfASessionIsRefusedWithTheNumbers) {
  TestCluster cluster({.nodes = 1, .agent_arguments = {"--segment-bytes-max", "8MiB"}});
  Session session = cluster.Connect(0, 0, 1);
  EXPECT_THAT(
      TextOfError([&] { session.Allocate<float>(4 << 20); }),
      AllOf(StartsWith("resource exhausted: "), HasSubstr("16777216 bytes"), HasSubstr("8388608")));
  const auto fits = session.Allocate<float>(2 << 20);
  EXPECT_THAT(TextOfError([&] { session.Allocate<float>(2 << 20); }),
              StartsWith("resource exhausted: "));
  session.Free(fits);
  EXPECT_EQ(session.Allocate<float>(2 << 20).size(), 2U << 20);
  EXPECT_EQ(TextOfError([&] { session.Barrier().Wait(); }), "ok");
}

TEST_F(LimitsTest, MoreOpsInFlightThanSlotsAreRefusedAndTheOthersComplete) {
  TestCluster cluster({.nodes = 1});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  std::vector<Op> ops;
  std::optional<client::Error> error;
  while (ops.size() < 5000 && !error) {
    error = ErrorOf([&] { ops.push_back(sessions[0].Barrier()); });
  }
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status(), MAYPOLE_RESOURCE_EXHAUSTED) << error->what();
  EXPECT_EQ(ops.size(), kSlotCount);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    sessions[1].Barrier().Wait();
    EXPECT_EQ(TextOfError([&] { ops[i].Wait(); }), "ok");
  }
}

}  // namespace
}  // namespace maypole::test
