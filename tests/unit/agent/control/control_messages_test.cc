#include "agent/control/control_messages.h"

#include <functional>

#include <gmock/gmock.h>

#include "proto/control.h"
#include "proto/coordinator.pb.h"
#include "proto/text.h"

namespace maypole::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CoordinatorClientOptions Self() {
  return {.coordinator = "c:7700",
          .node = "b",
          .incarnation = 7,
          .host = "host-b",
          .data_address = std::string("\x00\xff", 2),
          .data_endpoint = "b:7710",
          .version = "1.0"};
}

// Nodes a (rank 0) and b (ranks 1, 2); b is this agent.
v1::CoordinatorMessage EpochMessage() {
  v1::CoordinatorMessage message;
  v1::Epoch& epoch = *message.mutable_epoch();
  epoch.set_job("train");
  epoch.set_token(5);
  epoch.set_epoch(1);
  epoch.set_world_size(3);
  epoch.set_reason("why");
  v1::EpochMember& a = *epoch.add_members();
  a.set_node("a");
  a.set_incarnation(6);
  a.set_data_address("at-a");
  a.add_ranks(0);
  v1::EpochMember& b = *epoch.add_members();
  b.set_node("b");
  b.set_incarnation(7);
  b.add_ranks(1);
  b.add_ranks(2);
  v1::Level& level = *epoch.add_levels();
  level.add_groups(2);
  level.set_algorithm("ring");
  v1::TuningRow& row = *epoch.mutable_tuning()->add_rows();
  row.set_collective("all_reduce");
  row.set_bytes_end(1000);
  row.set_algorithm("tree");
  epoch.mutable_tuning()->set_version(3);
  return message;
}

TEST(ToEvent, TakesAnEpoch) {
  const auto event = ToEvent(EpochMessage(), Self());
  ASSERT_TRUE(event.ok()) << event.status();
  const EpochInfo& epoch = std::get<EpochInfo>(*event);
  EXPECT_EQ(epoch.job, "train");
  EXPECT_EQ(epoch.token, JobToken(5));
  EXPECT_EQ(epoch.epoch, Epoch(1));
  EXPECT_EQ(epoch.world_size, 3u);
  EXPECT_EQ(epoch.reason, "why");
  ASSERT_EQ(epoch.members.size(), 2u);
  EXPECT_EQ(epoch.members[0].data_address, "at-a");
  EXPECT_EQ(epoch.members[0].incarnation, 6u);
  EXPECT_THAT(epoch.members[1].ranks, ElementsAre(Rank(1), Rank(2)));
}

TEST(ToEvent, RefusesEpochsThatCannotBe) {
  struct Case {
    const char* what;
    std::function<void(v1::Epoch&)> spoil;
  };

  const std::vector<Case> cases = {
      {"no name", [](v1::Epoch& e) { e.clear_job(); }},
      {"control character", [](v1::Epoch& e) { e.set_job("a\nb"); }},
      {"token 0", [](v1::Epoch& e) { e.set_token(0); }},
      {"epoch 0", [](v1::Epoch& e) { e.set_epoch(0); }},
      {"world of 0", [](v1::Epoch& e) { e.set_world_size(0); }},
      {"huge world", [](v1::Epoch& e) { e.set_world_size(0xffffffff); }},
      {"rank without member", [](v1::Epoch& e) { e.set_world_size(4); }},
      {"rank out of range", [](v1::Epoch& e) { e.set_world_size(2); }},
      {"rank twice", [](v1::Epoch& e) { e.mutable_members(0)->set_ranks(0, 1); }},
      {"descending ranks",
       [](v1::Epoch& e) {
         e.mutable_members(1)->set_ranks(0, 2);
         e.mutable_members(1)->set_ranks(1, 1);
       }},
      {"member without rank",
       [](v1::Epoch& e) {
         e.mutable_members(0)->clear_ranks();
         e.mutable_members(1)->add_ranks(3);
       }},
      {"more members than ranks",
       [](v1::Epoch& e) {
         e.add_members()->set_node("c");
         e.add_members()->set_node("d");
       }},
      {"no member", [](v1::Epoch& e) { e.clear_members(); }},
      {"node twice", [](v1::Epoch& e) { e.mutable_members(0)->set_node("b"); }},
      {"nameless node", [](v1::Epoch& e) { e.mutable_members(0)->clear_node(); }},
      {"without this agent", [](v1::Epoch& e) { e.mutable_members(1)->set_node("x"); }},
      {"for this agent's former life",
       [](v1::Epoch& e) { e.mutable_members(1)->set_incarnation(1); }},
  };
  for (const Case& c : cases) {
    v1::CoordinatorMessage message = EpochMessage();
    c.spoil(*message.mutable_epoch());
    EXPECT_FALSE(ToEvent(message, Self()).ok()) << c.what;
  }
}

TEST(ToEvent, RefusesAnEmptyMessage) {
  EXPECT_FALSE(ToEvent({}, Self()).ok());
}

TEST(ToEvent, TakesTheOtherKinds) {
  v1::CoordinatorMessage message;
  message.mutable_welcome()->set_version("2.0");
  const auto link = std::get<CoordinatorLink>(*ToEvent(message, Self()));
  EXPECT_TRUE(link.up);
  EXPECT_THAT(link.text, testing::AllOf(HasSubstr("c:7700"), HasSubstr("2.0")));
  message.mutable_refused()->set_text("no\n");
  EXPECT_EQ(std::get<AgentRefused>(*ToEvent(message, Self())).text, "no?");
  message.mutable_join_refused()->set_rank(4);
  EXPECT_EQ(std::get<JoinRefused>(*ToEvent(message, Self())).rank, Rank(4));
  message.mutable_job_failed()->set_token(9);
  message.mutable_job_failed()->set_culprits("ranks=1");
  EXPECT_EQ(std::get<JobFailed>(*ToEvent(message, Self())).token, JobToken(9));
  EXPECT_EQ(std::get<JobFailed>(*ToEvent(message, Self())).culprits, "ranks=1");
}

TEST(ToEvent, TakesANewerTableAndRefusesOneThatCannotBe) {
  v1::CoordinatorMessage message;
  message.mutable_tuning()->set_token(5);
  *message.mutable_tuning()->mutable_tuning() = EpochMessage().epoch().tuning();
  const auto event = ToEvent(message, Self());
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(std::get<TuningChanged>(*event).token, JobToken(5));
  EXPECT_EQ(std::get<TuningChanged>(*event).tuning.version, 3u);
  message.mutable_tuning()->mutable_tuning()->mutable_rows(0)->set_algorithm("?");
  EXPECT_FALSE(ToEvent(message, Self()).ok());
}

TEST(ToMessage, HelloCarriesTheEpochsSoThatTheyComeBackAlike) {
  const EpochInfo epoch = std::get<EpochInfo>(*ToEvent(EpochMessage(), Self()));
  const v1::AgentMessage message = HelloMessage(Self(), {epoch});
  const v1::AgentHello& hello = message.hello();
  EXPECT_EQ(hello.node(), "b");
  EXPECT_EQ(hello.incarnation(), 7u);
  EXPECT_EQ(hello.data_address(), std::string("\x00\xff", 2));
  EXPECT_EQ(hello.protocol(), kControlProtocol);
  ASSERT_EQ(hello.epochs_size(), 1);
  EXPECT_EQ(hello.epochs(0).SerializeAsString(), EpochMessage().epoch().SerializeAsString());
}

TEST(ToMessage, CarriesEveryKind) {
  EXPECT_EQ(ToMessage(ControlMessage(JoinRank{"j", Rank(1), 2})).join().world_size(), 2u);
  const v1::AgentMessage left =
      ToMessage(ControlMessage(LeaveRank{"j", JobToken(3), Rank(1), true, "why"}));
  EXPECT_EQ(left.leave().token(), 3u);
  EXPECT_TRUE(left.leave().died());
  EXPECT_EQ(left.leave().reason(), "why");
  const v1::AgentMessage failed =
      ToMessage(ControlMessage(FailureReport{"j", JobToken(3), Epoch(4), "text", "ranks=1"}));
  EXPECT_EQ(failed.failure().epoch(), 4u);
  EXPECT_EQ(failed.failure().culprits(), "ranks=1");
  AgentReport report;
  report.ops = 5;
  report.waiting.push_back({.job = "j",
                            .op = "grad",
                            .occurrence = 6,
                            .waited = std::chrono::milliseconds(1500),
                            .missing_ranks = {Rank(2)},
                            .reason = "late"});
  const v1::AgentMessage told = ToMessage(report);
  EXPECT_EQ(told.report().ops(), 5u);
  EXPECT_DOUBLE_EQ(told.report().waiting(0).seconds(), 1.5);
  EXPECT_EQ(told.report().waiting(0).missing_ranks(0), 2u);
}

// Protocol Buffers refuse to parse a string that is not UTF-8, and with it the whole stream.
TEST(ToMessage, TextsThatAreNotUtf8OrTooLongDoNotEndTheStream) {
  LeaveRank leave;
  leave.reason = "bad \xff\xfe byte " + std::string(2 * kControlTextBytesMax, 'x');
  const v1::AgentMessage message = ToMessage(ControlMessage(leave));
  EXPECT_TRUE(IsPrintableUtf8(message.leave().reason()));
  EXPECT_LE(message.leave().reason().size(), kControlTextBytesMax);
  v1::AgentMessage parsed;
  EXPECT_TRUE(parsed.ParseFromString(message.SerializeAsString()));
  EXPECT_THAT(parsed.leave().reason(), HasSubstr("bad ?? byte"));
}

}  // namespace
}  // namespace maypole::agent
