// Sessions, the coordinator's messages, frames of unknown jobs, and time.

#include "agent/engine/agent_core.h"

#include "tests/unit/agent/engine/core_fixture.h"

namespace maypole::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class AgentCoreTest : public CoreFixture {};

TEST_F(AgentCoreTest, AHelloJoinsTheRank) {
  Hello(kRank0, 0);
  EXPECT_TRUE(std::get<AnswerHello>(core_->TakeActions().at(0)).outcome.ok());
  Hello(kRank1, 1);
  const auto told = Taken<TellCoordinator>();
  ASSERT_THAT(told, SizeIs(1));
  const auto join = std::get<JoinRank>(told[0].message);
  EXPECT_EQ(join.job, "job");
  EXPECT_EQ(join.rank, Rank(1));
  EXPECT_EQ(join.world_size, 4);
}

TEST_F(AgentCoreTest, ARankThatIsHeldIsRefusedAndTheHolderNamed) {
  Hello(kRank0, 0);
  Taken<AnswerHello>();
  Hello(99, 0);
  const auto answers = Taken<AnswerHello>();
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].outcome.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(answers[0].outcome.text, HasSubstr("rank 0 of job \"job\" is already held"));
  EXPECT_THAT(answers[0].outcome.text, HasSubstr("process 1000"));
}

TEST_F(AgentCoreTest, ARankIsFreeAgainWhenItsHolderIsGone) {
  Hello(kRank0, 0);
  core_->OnClient(ClientGone{kRank0, true, "died"}, now_);
  EXPECT_THAT(Taken<ReleaseSession>(), SizeIs(1));
  Hello(99, 0);
  EXPECT_TRUE(Taken<AnswerHello>().at(0).outcome.ok());
}

TEST_F(AgentCoreTest, TheSameRankOfAnotherJobIsAnother) {
  Hello(kRank0, 0, "job");
  Hello(99, 0, "other");
  for (const AnswerHello& answer : Taken<AnswerHello>()) {
    EXPECT_TRUE(answer.outcome.ok());
  }
}

TEST_F(AgentCoreTest, ARefusedJoinEndsTheSession) {
  Hello(kRank0, 0);
  core_->OnControl(JoinRefused{"job", Rank(0), "two world sizes"}, now_);
  for (const Action& action : core_->TakeActions()) {
    actions_.push_back(action);
  }
  EXPECT_THAT(actions_, testing::Contains(testing::VariantWith<ReleaseSession>(testing::_)));
  EXPECT_EQ(Taken<SessionReady>().at(0).outcome.text, "two world sizes");
}

TEST_F(AgentCoreTest, ASubmissionBeforeTheJobFormsIsRefused) {
  Hello(kRank0, 0);
  Submit(Op(kRank0, "x"));
  EXPECT_EQ(Taken<CompleteOp>().at(0).outcome.code, ErrorCode::kFailedPrecondition);
}

TEST_F(AgentCoreTest, JoinsAreSaidAgainWhenTheCoordinatorComesBack) {
  Hello(kRank0, 0);
  Taken<TellCoordinator>();
  core_->OnControl(CoordinatorLink{true, ""}, now_);
  EXPECT_THAT(Taken<TellCoordinator>(), SizeIs(1));
  core_->OnControl(CoordinatorLink{false, ""}, now_);
  core_->OnControl(CoordinatorLink{true, ""}, now_);
  EXPECT_THAT(Taken<TellCoordinator>(), SizeIs(1));
}

TEST_F(AgentCoreTest, PatienceWithoutACoordinatorCountsFromTheHello) {
  core_->OnControl(CoordinatorLink{false, "connection refused"}, now_);
  Advance(seconds(100));
  Hello(kRank0, 0);
  Advance(seconds(29));
  EXPECT_THAT(Taken<SessionReady>(), IsEmpty());
  Advance(seconds(2));
  const auto ready = Taken<SessionReady>();
  ASSERT_THAT(ready, SizeIs(1));
  EXPECT_EQ(ready[0].outcome.code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(ready[0].outcome.text, HasSubstr("connection refused"));
}

TEST_F(AgentCoreTest, WithACoordinatorAJoinWaitsForEver) {
  core_->OnControl(CoordinatorLink{true, ""}, now_);
  Hello(kRank0, 0);
  Advance(seconds(1000));
  EXPECT_THAT(Taken<SessionReady>(), IsEmpty());
}

TEST_F(AgentCoreTest, AnEpochMakesItsSessionsReady) {
  core_->OnControl(CoordinatorLink{true, ""}, now_);
  Hello(kRank1, 1);
  Hello(kRank0, 0);
  core_->OnControl(MakeEpoch(), now_);
  const auto ready = Taken<SessionReady>();
  ASSERT_THAT(ready, SizeIs(2));
  EXPECT_EQ(ready[0].session, kRank0);
  EXPECT_EQ(ready[1].local_rank, 1);
  EXPECT_EQ(ready[1].local_world_size, 2);
  EXPECT_EQ(ready[1].nodes, 2);
  EXPECT_THAT(core_->Epochs(), SizeIs(1));
}

TEST_F(AgentCoreTest, AnEpochForAFormerLifeOfTheNodeIsIgnored) {
  Hello(kRank0, 0);
  EpochInfo epoch = MakeEpoch();
  epoch.members[0].incarnation = 99;
  core_->OnControl(epoch, now_);
  EXPECT_THAT(core_->Epochs(), IsEmpty());
}

TEST_F(AgentCoreTest, AJobThatLostARankWhileItFormedFailsAtOnce) {
  core_->OnControl(CoordinatorLink{true, ""}, now_);
  Hello(kRank0, 0);
  Hello(kRank1, 1);
  core_->OnClient(ClientGone{kRank1, false, "closed"}, now_);
  core_->OnControl(MakeEpoch(), now_);
  Submit(Op(kRank0, "x"));
  EXPECT_EQ(Taken<CompleteOp>().at(0).outcome.code, ErrorCode::kPeerLost);
}

TEST_F(AgentCoreTest, AnEpochThatHasEndedIsNotTakenForANewRun) {
  FormJob();
  core_->OnClient(ClientGone{kRank0, false, "closed"}, now_);
  core_->OnClient(ClientGone{kRank1, false, "closed"}, now_);
  Hello(20, 0);
  Hello(21, 1);
  Taken<TellCoordinator>();
  core_->OnControl(MakeEpoch(), now_);
  EXPECT_THAT(core_->Epochs(), IsEmpty());
  const auto told = Taken<TellCoordinator>();
  ASSERT_THAT(told, SizeIs(4)) << "both ranks left that run, and join the next";
  EXPECT_EQ(std::get<LeaveRank>(told[1].message).token, kToken);
  EXPECT_EQ(std::get<JoinRank>(told[2].message).rank, Rank(0));
}

TEST_F(AgentCoreTest, AFailedRunIsNotToldToACoordinatorThatComesBack) {
  FormJob();
  const auto version = core_->epochs_version();
  core_->OnClient(ClientGone{kRank1, true, "its process ended"}, now_);
  EXPECT_THAT(core_->Epochs(), IsEmpty()) << "though rank 0 has not closed its session";
  EXPECT_NE(core_->epochs_version(), version);
}

TEST_F(AgentCoreTest, WhoLeftIsToldAgainToACoordinatorThatComesBack) {
  FormJob();
  core_->OnControl(CoordinatorLink{false, ""}, now_);
  core_->OnClient(ClientGone{kRank0, false, "closed"}, now_);
  Taken<TellCoordinator>();
  core_->OnControl(CoordinatorLink{true, ""}, now_);
  const auto told = Taken<TellCoordinator>();
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(std::get<LeaveRank>(told[0].message).rank, Rank(0));
  EXPECT_EQ(std::get<LeaveRank>(told[0].message).token, kToken);
}

TEST_F(AgentCoreTest, FramesThatComeBeforeTheirEpochAreParked) {
  Hello(kRank0, 0);
  Hello(kRank1, 1);
  AnnounceFromB("x", 0);
  EXPECT_THAT(Taken<DropPayload>(), IsEmpty());
  core_->OnControl(MakeEpoch(), now_);
  EXPECT_THAT(Taken<DropPayload>(), SizeIs(1));  // it has been read
  Submit(Op(kRank0, "x", 0));
  Submit(Op(kRank1, "x", 0));
  EXPECT_THAT(Taken<CompleteOp>(), SizeIs(2));
}

TEST_F(AgentCoreTest, OfFramesThatComeBeforeTheirEpochOnlyWordsAreParked) {
  Arrive(FromB(FrameKind::kHello));
  Arrive(FromB(FrameKind::kHeartbeat));
  Arrive(FromB(FrameKind::kData, "x"), std::vector<std::byte>(16));
  EXPECT_THAT(Taken<DropPayload>(), SizeIs(1));
  EXPECT_EQ(core_->NextTick(), kNever) << "nothing is kept";
}

TEST_F(AgentCoreTest, AnEpochThatComesAfterWhatWasSaidOfItExpiredFailsTheJob) {
  AnnounceFromB("x");
  core_->OnTick(now_);
  Advance(seconds(9));
  EXPECT_THAT(Taken<DropPayload>(), IsEmpty());
  Advance(seconds(2));
  EXPECT_THAT(Taken<DropPayload>(), SizeIs(1));
  EXPECT_EQ(core_->NextTick(), kNever);
  FormJob();
  Submit(Op(kRank0, "x"));
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(done[0].outcome.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(done[0].outcome.text, HasSubstr("reached node a too late"));
}

TEST_F(AgentCoreTest, AnEpochThatComesAfterMoreThanCanBeParkedFailsTheJob) {
  const auto announces = [&] {
    for (int i = 0; i < 20; ++i) {
      Arrive(FromB(FrameKind::kAnnounce, "x"), std::vector<std::byte>(1 << 20));
    }
  };
  announces();
  EXPECT_THAT(Taken<DropPayload>(), SizeIs(5));
  FormJob();
  const auto failed = Taken<FailSession>();
  ASSERT_THAT(failed, SizeIs(2));
  EXPECT_EQ(failed[0].outcome.code, ErrorCode::kResourceExhausted);
  announces();
  EXPECT_THAT(Taken<DropPayload>(), SizeIs(20)) << "of a job that is known";
}

TEST_F(AgentCoreTest, WhatIsSaidOfARunThatIsNotForUsIsNotParked) {
  core_->OnControl(MakeEpoch(), now_);  // no rank of it has joined
  AnnounceFromB("x");
  EXPECT_THAT(Taken<DropPayload>(), SizeIs(1));
  EXPECT_EQ(core_->NextTick(), kNever);
}

TEST_F(AgentCoreTest, FramesOfAnotherEpochAreDropped) {
  FormJob();
  FrameHeader header = FromB(FrameKind::kData, "x");
  header.epoch = 0;
  Arrive(header, std::vector<std::byte>(16));
  EXPECT_THAT(Taken<DropPayload>(), SizeIs(1));
}

TEST_F(AgentCoreTest, FramesOfAnEndedJobAreDropped) {
  FormJob();
  core_->OnClient(ClientGone{kRank0, false, "closed"}, now_);
  core_->OnClient(ClientGone{kRank1, false, "closed"}, now_);
  Taken<DropPayload>();
  Arrive(FromB(FrameKind::kData, "x"), std::vector<std::byte>(16));
  EXPECT_THAT(Taken<DropPayload>(), SizeIs(1));
}

TEST_F(AgentCoreTest, AFrameWithoutPayloadLeavesNothingToDrop) {
  FormJob();
  FrameHeader stranger = FromB(FrameKind::kHeartbeat);
  stranger.sender = 9;
  Arrive(stranger);
  FrameHeader ourselves = FromB(FrameKind::kHeartbeat);
  ourselves.sender = 0;
  Arrive(ourselves);
  Arrive(FromB(FrameKind::kData, "x"));
  Arrive(FromB(FrameKind::kHeartbeat));
  EXPECT_THAT(Taken<DropPayload>(), IsEmpty());
}

TEST_F(AgentCoreTest, GarbledBodiesAreDroppedAndHarmNothing) {
  FormJob();
  for (const FrameKind kind : {FrameKind::kAnnounce, FrameKind::kAbort, FrameKind::kJobFailed}) {
    Arrive(FromB(kind, "x"), std::vector<std::byte>(7, std::byte{0xff}));
  }
  EXPECT_THAT(Taken<DropPayload>(), SizeIs(3));
  EXPECT_FALSE(core_->Busy());
}

TEST_F(AgentCoreTest, AnIdleAgentAsksForNoTick) {
  EXPECT_EQ(core_->NextTick(), kNever);
  FormJob();
  Advance(seconds(10));
  EXPECT_GE(core_->NextTick() - now_, Duration(0));
  EXPECT_LE(core_->NextTick() - now_, seconds(1));  // heartbeats only
  core_->OnClient(ClientGone{kRank0, false, "closed"}, now_);
  core_->OnClient(ClientGone{kRank1, false, "closed"}, now_);
  EXPECT_EQ(core_->NextTick(), kNever);
}

TEST_F(AgentCoreTest, ATickThatIsDueStaysDueWhateverElseHappens) {
  FormJob();
  Submit(Op(kRank0, "x"));
  const TimePoint due = core_->NextTick();
  for (int i = 0; i < 10; ++i) {
    now_ += milliseconds(60);
    Arrive(FromB(FrameKind::kHeartbeat));
  }
  EXPECT_EQ(core_->NextTick(), due);
}

TEST_F(AgentCoreTest, ASilentPeerIsLostAfterTheLease) {
  FormJob();
  Submit(Op(kRank0, "x"));
  Advance(milliseconds(2900));
  EXPECT_THAT(Taken<CompleteOp>(), IsEmpty());
  Advance(milliseconds(300));
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(done[0].outcome.code, ErrorCode::kPeerLost);
  EXPECT_THAT(done[0].outcome.text, HasSubstr("node b (host host-b) with ranks 2, 3 was lost"));
  EXPECT_EQ(done[0].outcome.culprits, "ranks=2,3;hosts=host-b");
}

// The coordinator may have died before it told b of the second job.
TEST_F(AgentCoreTest, APeerThatSpeaksOfAnotherJobOnlyIsLostForThisOne) {
  FormJob();
  EpochInfo second = MakeEpoch();
  second.job = "second";
  second.token = JobToken(4712);
  Hello(20, 0, "second");
  Hello(21, 1, "second");
  core_->OnControl(second, now_);
  Submit(Op(20, "x"));
  core_->TakeActions();
  actions_.clear();
  std::vector<Action> actions;
  for (int i = 0; i < 32; ++i) {
    Arrive(FromB(FrameKind::kHeartbeat));
    Advance(milliseconds(100));
  }
  actions = core_->TakeActions();
  actions_ = actions;
  EXPECT_THAT(Taken<DisconnectPeer>(), IsEmpty());
  actions_ = actions;
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(done[0].session, 20u);
  EXPECT_EQ(done[0].outcome.code, ErrorCode::kPeerLost);
  EXPECT_THAT(done[0].outcome.text, HasSubstr("in this job"));
  Submit(Op(kRank0, "x"));
  Submit(Op(kRank1, "x"));
  AnnounceFromB("x");
  EXPECT_THAT(Taken<CompleteOp>(), IsEmpty()) << "the first job goes on";
  EXPECT_TRUE(core_->Busy());
}

TEST_F(AgentCoreTest, AFailedJobInWhichNothingIsUnderWayNeedsNobody) {
  FormJob();
  core_->OnClient(ClientGone{kRank1, true, "its process ended"}, now_);
  Advance(seconds(20));
  EXPECT_THAT(Taken<DisconnectPeer>(), IsEmpty()) << "b has ended the job and is silent";
}

TEST_F(AgentCoreTest, AnAgentThatWasStoppedItselfBlamesNobody) {
  FormJob();
  Submit(Op(kRank0, "x"));
  Advance(seconds(1));
  now_ += seconds(20);
  core_->OnTick(now_);
  EXPECT_THAT(Taken<CompleteOp>(), IsEmpty());
}

TEST_F(AgentCoreTest, HeartbeatsGoOutWhileAJobRuns) {
  FormJob();
  for (int i = 0; i < 10; ++i) {
    Arrive(FromB(FrameKind::kHeartbeat));
    Advance(seconds(1));
  }
  EXPECT_GE(Frames(FrameKind::kHeartbeat).size(), 9);
}

}  // namespace
}  // namespace maypole::agent
