// Ops of one job, and what happens to them when somebody leaves or dies.

#include "agent/engine/job.h"

#include "tests/unit/agent/engine/core_fixture.h"

namespace maypole::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class JobTest : public CoreFixture {
 protected:
  void SubmitBoth(const std::string& name, ElementCount elements = 8) {
    Submit(Op(kRank0, name, elements));
    Submit(Op(kRank1, name, elements));
  }

  void Lose(PeerId peer) {
    TransportEvent lost;
    lost.kind = TransportEvent::Kind::kPeerLost;
    lost.peer = peer;
    lost.text = "connection reset";
    core_->OnTransport(lost, now_);
  }

  void RankOfBLeft(std::uint32_t rank) {
    FrameHeader header = FromB(FrameKind::kJobFailed);
    header.flags = kRankLeft;
    header.op = rank;
    Arrive(header, EncodeOutcome({ErrorCode::kPeerLost, "closed its session", {}}));
  }
};

TEST_F(JobTest, AnOpIsAnnouncedOnceAllLocalRanksHaveSubmittedIt) {
  FormJob();
  Submit(Op(kRank0, "x"));
  EXPECT_THAT(Frames(FrameKind::kAnnounce), IsEmpty());
  Submit(Op(kRank1, "x"));
  const auto frames = Frames(FrameKind::kAnnounce);
  ASSERT_THAT(frames, SizeIs(1));
  EXPECT_EQ(frames[0].header.op, HashName("x"));
  EXPECT_EQ(frames[0].header.flags, 0);
}

TEST_F(JobTest, NoDataMovesBeforeAllMembersHaveAnnounced) {
  FormJob();
  SubmitBoth("x");
  EXPECT_THAT(Taken<RunWork>(), IsEmpty());
  AnnounceFromB("x");
  EXPECT_THAT(Taken<RunWork>(), Not(IsEmpty()));
}

TEST_F(JobTest, TheUsesOfANameAreCounted) {
  FormJob();
  SubmitBoth("x");
  SubmitBoth("x");
  const auto frames = Frames(FrameKind::kAnnounce);
  ASSERT_THAT(frames, SizeIs(2));
  EXPECT_EQ(frames[0].header.occurrence, 0);
  EXPECT_EQ(frames[1].header.occurrence, 1);
}

TEST_F(JobTest, AMismatchIsToldToAllLocalRanks) {
  FormJob();
  SubmitBoth("x", 8);
  AnnounceFromB("x", 9);
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_EQ(done[0].outcome, done[1].outcome);
  EXPECT_THAT(done[0].outcome.text, HasSubstr("ranks 0, 1 have 8, ranks 2, 3 have 9"));
  EXPECT_FALSE(core_->Busy());
}

TEST_F(JobTest, AMissedDeadlineNamesWhoHasNotSubmitted) {
  FormJob();
  Submission op = Op(kRank0, "x");
  op.timeout = milliseconds(500);
  Submit(op);
  AnnounceFromB("x");
  Advance(milliseconds(700));
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(done[0].outcome.code, ErrorCode::kTimeout);
  EXPECT_THAT(done[0].outcome.text, HasSubstr("rank 1 on a (host host-a) has not submitted it"));
  EXPECT_EQ(done[0].outcome.culprits, "waiting_ranks=1;hosts=host-a");
  Submit(Op(kRank1, "x"));
  const auto later = Taken<CompleteOp>();
  EXPECT_EQ(later.at(0).outcome, done[0].outcome);
}

TEST_F(JobTest, AStalledOpIsReportedOnceByNameAndRank) {
  FormJob();
  Submit(Op(kRank0, "x"));
  for (int i = 0; i < 80; ++i) {
    Advance(milliseconds(100));
    Arrive(FromB(FrameKind::kHeartbeat));
  }
  const auto lines = Taken<LogLine>();
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0].text, HasSubstr("all_reduce \"x\" #0 has waited"));
  EXPECT_THAT(lines[0].text, HasSubstr("rank 1 on a (host host-a) and ranks 2, 3 on b"));
}

TEST_F(JobTest, OpsThatStallTogetherForTheSameRanksAreOneReport) {
  FormJob();
  AnnounceFromB("only here");
  Submit(Op(kRank0, "only here"));
  for (const std::string name : {"z", "y", "x"}) {
    SubmitBoth(name);
  }
  for (int i = 0; i < 80; ++i) {
    Advance(milliseconds(100));
    Arrive(FromB(FrameKind::kHeartbeat));
  }
  const auto lines = Taken<LogLine>();
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0].text,
              HasSubstr("\"only here\" #0 has waited for 5.0 s for rank 1 on a (host host-a), "));
  EXPECT_THAT(lines[1].text,
              HasSubstr("\"z\" #0 (and 2 more) has waited for 5.0 s for ranks 2, 3"));
}

TEST_F(JobTest, NewsAboutAStalledOpFollowWhatIsSubmitted) {
  FormJob();
  AnnounceFromB("x");  // the op is known here before any local rank submits it
  Advance(milliseconds(1500));
  EXPECT_THAT(Frames(FrameKind::kAnnounce), IsEmpty());
  Submit(Op(kRank1, "x"));
  Advance(milliseconds(500));
  const auto news = Frames(FrameKind::kAnnounce);
  ASSERT_THAT(news, SizeIs(1));
  EXPECT_EQ(news[0].header.flags, kAnnouncePartial);
  EXPECT_EQ(DecodeAnnounce(news[0].body)->groups.at(0).ranks, std::vector{Rank(1)});
}

TEST_F(JobTest, ADeathFailsWhatHasNotStartedAndTellsTheMembersThatHoldItsAnnounce) {
  FormJob();
  SubmitBoth("announced");
  Submit(Op(kRank0, "collecting"));
  Taken<CompleteOp>();
  core_->OnClient(ClientGone{kRank1, true, "its process ended"}, now_);
  std::vector<Action> actions = core_->TakeActions();
  actions_ = actions;
  const auto aborts = Frames(FrameKind::kAbort);
  ASSERT_THAT(aborts, SizeIs(1));
  EXPECT_EQ(aborts[0].header.op, HashName("announced"));
  actions_ = actions;
  EXPECT_THAT(Frames(FrameKind::kJobFailed), SizeIs(1));
  actions_ = actions;
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_THAT(done[0].outcome.text, HasSubstr("rank 1 on a (host host-a) was lost"));
  EXPECT_FALSE(core_->Busy());
}

TEST_F(JobTest, AfterTheJobFailedEverySubmissionGetsTheError) {
  FormJob();
  core_->OnClient(ClientGone{kRank1, true, "its process ended"}, now_);
  EXPECT_THAT(Taken<FailSession>(), SizeIs(1));
  Submit(Op(kRank0, "x"));
  EXPECT_EQ(Taken<CompleteOp>().at(0).outcome.code, ErrorCode::kPeerLost);
}

TEST_F(JobTest, NewsAfterTheJobFailedStartNothing) {
  FormJob();
  core_->OnClient(ClientGone{kRank1, true, "its process ended"}, now_);
  AnnounceFromB("x");
  Arrive(FromB(FrameKind::kAbort, "y"), EncodeOutcome({ErrorCode::kTimeout, "late", {}}));
  EXPECT_FALSE(core_->Busy());
  core_->OnClient(ClientGone{kRank0, false, "closed"}, now_);
  EXPECT_THAT(core_->Epochs(), IsEmpty());
}

TEST_F(JobTest, ARankThatLeavesTellsFirstWhatItHasSubmitted) {
  FormJob();
  Submit(Op(kRank0, "x"));
  Taken<SendFrame>();
  core_->OnClient(ClientGone{kRank0, false, "closed"}, now_);
  const auto frames = Taken<SendFrame>();
  ASSERT_THAT(frames, SizeIs(2));
  EXPECT_EQ(frames[0].header.kind, FrameKind::kAnnounce);
  EXPECT_EQ(frames[0].header.flags, kAnnouncePartial);
  EXPECT_EQ(frames[1].header.flags, kRankLeft);
}

TEST_F(JobTest, ARankThatLeftFailsOnlyWhatItNeverSubmitted) {
  FormJob();
  SubmitBoth("it submitted");
  SubmitBoth("it did not");
  FrameHeader news = FromB(FrameKind::kAnnounce, "it submitted");
  news.flags = kAnnouncePartial;
  Arrive(news, EncodeAnnounce({"it submitted", 2, 1, {{{.elements = 8}, {Rank(3)}}}}));
  Taken<CompleteOp>();
  RankOfBLeft(3);
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_THAT(done[0].outcome.text, HasSubstr("\"it did not\" #0 can never complete: rank 3 on b"));
}

TEST_F(JobTest, MemoryOfARankThatLeftIsKeptWhileAnOpMayStillReadIt) {
  FormJob();
  SubmitBoth("x");
  core_->OnClient(ClientGone{kRank0, false, "closed"}, now_);
  EXPECT_THAT(Taken<ReleaseSession>(), IsEmpty());
  Arrive(FromB(FrameKind::kAbort, "x"), EncodeOutcome({ErrorCode::kTimeout, "late", {}}));
  EXPECT_THAT(Taken<ReleaseSession>(), SizeIs(1));
}

TEST_F(JobTest, AnAgentWhoseRanksHaveAllLeftMayFallSilent) {
  FormJob();
  RankOfBLeft(2);
  RankOfBLeft(3);
  Advance(seconds(20));
  EXPECT_THAT(Taken<DisconnectPeer>(), IsEmpty());
}

TEST_F(JobTest, AnAgentWhoseRanksHaveAllLeftIsNeededForWhatTheySubmitted) {
  FormJob();
  const PeerId b = Taken<ConnectPeer>().at(0).peer;
  AnnounceFromB("x");
  RankOfBLeft(2);
  RankOfBLeft(3);
  Lose(b);
  SubmitBoth("x");
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_THAT(done[0].outcome.text, HasSubstr("the agent of node b (host host-b)"));
}

TEST_F(JobTest, AnOpThatRunsGoesOnWhenTheCoordinatorTellsOfADeath) {
  FormJob();
  SubmitBoth("runs");
  AnnounceFromB("runs");
  SubmitBoth("waits");
  Taken<CompleteOp>();
  core_->OnControl(JobFailed{"job", kToken, "rank 3 is gone", "ranks=3"}, now_);
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_THAT(done[0].outcome.text, HasSubstr("\"waits\" #0 failed: rank 3 is gone"));
  EXPECT_TRUE(core_->Busy());
}

// The client's waits end with FailSession, and the tensors are the rank's own again.
TEST_F(JobTest, ASessionIsFailedOnlyAfterItsOpsAreRestored) {
  FormJob();
  const PeerId b = Taken<ConnectPeer>().at(0).peer;
  SubmitBoth("runs");
  AnnounceFromB("runs");
  std::vector<Action> actions = core_->TakeActions();
  actions_ = actions;
  const auto works = Taken<RunWork>();
  ASSERT_THAT(works, Not(IsEmpty()));
  Lose(b);
  actions = core_->TakeActions();
  actions_ = actions;
  EXPECT_THAT(Taken<CompleteOp>(), IsEmpty());
  actions_ = actions;
  EXPECT_THAT(Taken<FailSession>(), IsEmpty());
  for (const RunWork& work : works) {
    core_->OnWorkDone(work.token, now_);
  }
  actions = core_->TakeActions();
  actions_ = actions;
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(2));
  actions_ = actions;
  EXPECT_THAT(Taken<FailSession>(), SizeIs(2));
}

TEST_F(JobTest, ALoneAgentFinishesWhatItBeganWhateverTheDeadline) {
  FormJob(/*with_b=*/false);
  Submission op = Op(kRank0, "x");
  op.timeout = milliseconds(100);
  Submit(op);
  Submit(Op(kRank1, "x"));
  const auto works = Taken<RunWork>();
  ASSERT_THAT(works, Not(IsEmpty()));
  Advance(seconds(1));
  EXPECT_THAT(Taken<CompleteOp>(), IsEmpty());
  for (const RunWork& work : works) {
    core_->OnWorkDone(work.token, now_);
  }
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_TRUE(done[0].outcome.ok());
}

TEST_F(JobTest, AnAbortBeforeTheSubmissionsIsToldToEachOfThem) {
  FormJob();
  const Outcome outcome{ErrorCode::kTimeout, "too late", "waiting_ranks=0"};
  Arrive(FromB(FrameKind::kAbort, "x"), EncodeOutcome(outcome));
  EXPECT_FALSE(core_->Busy());
  EXPECT_EQ(core_->OpsInFlight(), 0);
  SubmitBoth("x");
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_EQ(done[1].outcome, outcome);
  SubmitBoth("x");  // the next use of the name is another op
  EXPECT_THAT(Taken<CompleteOp>(), IsEmpty());
}

TEST_F(JobTest, OpsThatFailForEverBeforeARankSubmitsThemFailTheJob) {
  FormJob();
  const std::vector<std::byte> body = EncodeOutcome({ErrorCode::kTimeout, "too late", ""});
  for (std::uint64_t i = 0; i <= 8192; ++i) {
    Arrive(FromB(FrameKind::kAbort, "x", i), body);
  }
  EXPECT_THAT(Taken<FailSession>(), IsEmpty());
  Submit(Op(kRank0, "y"));
  Advance(milliseconds(200));
  const auto failed = Taken<FailSession>();
  ASSERT_THAT(failed, SizeIs(2));
  EXPECT_EQ(failed[0].outcome.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(failed[0].outcome.text, HasSubstr("8193 ops have failed"));
  EXPECT_THAT(core_->Waiting(now_), IsEmpty());
}

TEST_F(JobTest, TooManyNamesAreRefusedWithTheRemedy) {
  CoreOptions options;
  options.names_per_job_max = 2;
  Restart(options);
  FormJob();
  for (const char* name : {"x", "y", "x", "z"}) {
    Submit(Op(kRank0, name));
  }
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(done[0].outcome.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(done[0].outcome.text, HasSubstr("same name in every step"));
}

TEST_F(JobTest, NoMemoryForASharedResultIsAnErrorForEveryMember) {
  FormJob();
  memory_.RefuseResults(1);
  for (const SessionId session : {kRank0, kRank1}) {
    Submission op = Op(session, "x");
    op.shared_result = true;
    Submit(op);
  }
  Taken<SendFrame>();
  AnnounceFromB("x");
  std::vector<Action> actions = core_->TakeActions();
  actions_ = actions;
  EXPECT_THAT(Frames(FrameKind::kAbort), SizeIs(1));
  actions_ = actions;
  EXPECT_EQ(Taken<CompleteOp>().at(0).outcome.code, ErrorCode::kResourceExhausted);
}

TEST_F(JobTest, NoMemoryToPutInputsAsideIsAnErrorForEveryMember) {
  FormJob();
  memory_.LimitScratch(1000);
  SubmitBoth("x", 1000);
  Taken<SendFrame>();
  AnnounceFromB("x", 1000);
  std::vector<Action> actions = core_->TakeActions();
  actions_ = actions;
  EXPECT_THAT(Frames(FrameKind::kAbort), SizeIs(1));
  actions_ = actions;
  EXPECT_THAT(Taken<RunWork>(), IsEmpty());
  actions_ = actions;
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_EQ(done[0].outcome.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(done[0].outcome.text, HasSubstr("4000 bytes"));
  EXPECT_FALSE(core_->Busy());
  EXPECT_EQ(memory_.scratch_in_use(), 0);
}

TEST_F(JobTest, NoMemoryForPartialSumsIsAnErrorOfThatOpForEveryMember) {
  FormJob();
  for (const SessionId session : {kRank0, kRank1}) {
    Submission op = Op(session, "x");
    op.overwrite = true;  // nothing is put aside
    Submit(op);
  }
  Taken<SendFrame>();
  memory_.RefuseScratch(1);
  AnnounceFromB("x");
  std::vector<Action> actions = core_->TakeActions();
  actions_ = actions;
  EXPECT_THAT(Frames(FrameKind::kAbort), SizeIs(1));
  for (const Action& action : actions) {
    if (const auto* run = std::get_if<RunWork>(&action)) {
      core_->OnWorkDone(run->token, now_);
    }
  }
  actions_ = actions;
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_EQ(done[0].outcome.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(done[0].outcome.text, HasSubstr("no memory on a for partial sums"));
  EXPECT_FALSE(core_->Busy());
  EXPECT_EQ(memory_.scratch_in_use(), 0);
  SubmitBoth("next");
  AnnounceFromB("next");
  EXPECT_THAT(Taken<RunWork>(), Not(IsEmpty()));
}

TEST_F(JobTest, ATimeoutBeyondTheClockIsNone) {
  FormJob();
  Submission op = Op(kRank0, "x");
  op.timeout = Duration::max();
  Submit(op);
  Advance(seconds(2));
  EXPECT_THAT(Taken<CompleteOp>(), IsEmpty());
}

TEST_F(JobTest, WaitingTellsForWhom) {
  FormJob();
  SubmitBoth("x");
  now_ += seconds(2);
  const auto waiting = core_->Waiting(now_);
  ASSERT_THAT(waiting, SizeIs(1));
  EXPECT_EQ(waiting[0].op.missing, (std::vector{Rank(2), Rank(3)}));
  EXPECT_EQ(waiting[0].op.waited, seconds(2));
}

// ---- of two ranks

class PairTest : public JobTest {
 protected:
  // b announces a send/receive; the hash is that of `key_of`, if it is another.
  void AnnouncePair(std::uint32_t from, std::uint32_t to) { AnnouncePair(from, to, {from, to}); }

  void AnnouncePair(std::uint32_t from,
                    std::uint32_t to,
                    std::pair<std::uint32_t, std::uint32_t> key_of) {
    FrameHeader header = FromB(FrameKind::kAnnounce);
    header.op = HashOf(Between(0, key_of.first, key_of.second));
    Arrive(header,
           EncodeAnnounce(
               {.name = "x",
                .algorithm = static_cast<std::uint8_t>(collective::Algorithm::kDirect),
                .slice_bytes = CoreOptions{}.slice_bytes,
                .groups = {{ShapeOf(Between(0, from, to)), {Rank(from < 2 ? to : from)}}}}));
  }

  Submission Between(SessionId session, std::uint32_t from, std::uint32_t to) {
    Submission op = Op(session, "x");
    op.collective = collective::Collective::kSendReceive;
    op.root = Rank(from);
    op.peer = Rank(to);
    return op;
  }
};

TEST_F(PairTest, BeginsOnceBothRanksAreHere) {
  FormJob();
  AnnouncePair(0, 2);
  EXPECT_TRUE(core_->Busy());
  Submit(Between(kRank0, 0, 2));
  EXPECT_THAT(Frames(FrameKind::kData), SizeIs(1));
}

TEST_F(PairTest, OfRanksWithoutUsOrWithoutTheSenderIsNoNews) {
  FormJob();
  AnnouncePair(2, 3);
  AnnouncePair(0, 1);
  AnnouncePair(0, 0);
  AnnouncePair(2, 2);
  EXPECT_FALSE(core_->Busy());
}

TEST_F(PairTest, StaysWhatItIsWhateverIsAnnouncedNext) {
  FormJob();
  AnnouncePair(0, 2);
  AnnouncePair(2, 3, {0, 2});
  AnnouncePair(1, 3, {0, 2});
  Submit(Between(kRank0, 0, 2));
  EXPECT_THAT(Frames(FrameKind::kData), SizeIs(1));
}

// ---- which algorithm

collective::TuningTable Everything(collective::Algorithm algorithm, std::uint32_t version = 1) {
  return {.version = version, .rows = {{.algorithm = algorithm, .slice_bytes = 4096}}};
}

class ChoiceTest : public JobTest {
 protected:
  // Bytes of the data frames that leave for one op of 32 bytes; the sums are done at once.
  std::uint64_t BytesSentByAnOp(const std::string& name) {
    SubmitBoth(name);
    AnnounceFromB(name);
    std::uint64_t bytes = 0;
    for (int round = 0; round < 4; ++round) {
      for (const Action& action : core_->TakeActions()) {
        if (const auto* run = std::get_if<RunWork>(&action)) {
          core_->OnWorkDone(run->token, now_);
        } else if (const auto* send = std::get_if<SendFrame>(&action);
                   send != nullptr && send->header.kind == FrameKind::kData) {
          bytes += send->payload.bytes;
        }
      }
    }
    return bytes;
  }

  static EpochInfo Turned(EpochInfo epoch) {
    std::swap(epoch.members[0], epoch.members[1]);
    return epoch;
  }

  void SubmitWith(collective::Algorithm algorithm) {
    for (const SessionId session : {kRank0, kRank1}) {
      Submission op = Op(session, "x");
      op.algorithm = algorithm;
      Submit(std::move(op));
    }
  }
};

TEST_F(ChoiceTest, TheAnnounceCarriesWhatTheTableSays) {
  EpochInfo epoch = MakeEpoch();
  epoch.tuning = Everything(collective::Algorithm::kNaive);
  FormJob(epoch);
  SubmitBoth("x");
  const auto frames = Frames(FrameKind::kAnnounce);
  ASSERT_THAT(frames, SizeIs(1));
  const auto announce = DecodeAnnounce(frames[0].body);
  EXPECT_EQ(announce->algorithm, static_cast<int>(collective::Algorithm::kNaive));
  EXPECT_EQ(announce->slice_bytes, 4096u);
}

TEST_F(ChoiceTest, TheFirstMemberDecidesWhateverTheOthersHold) {
  EpochInfo epoch = MakeEpoch();
  epoch.tuning = Everything(collective::Algorithm::kNaive);
  FormJob(epoch);
  EXPECT_EQ(BytesSentByAnOp("x"), 32u) << "naive sends everything, though b would take direct";
}

TEST_F(ChoiceTest, AnotherThanTheFirstFollows) {
  EpochInfo epoch = Turned(MakeEpoch());
  epoch.tuning = Everything(collective::Algorithm::kNaive);
  FormJob(epoch);
  sender_of_b_ = 0;
  EXPECT_EQ(BytesSentByAnOp("x"), 16u) << "direct, as b says";
}

TEST_F(ChoiceTest, ANewerTableCountsFromTheNextAnnounceOn) {
  FormJob();
  EXPECT_EQ(BytesSentByAnOp("before"), 16u) << "direct sends the half that b owns";
  const auto version = core_->epochs_version();
  core_->OnControl(TuningChanged{"job", kToken, Everything(collective::Algorithm::kNaive, 2)},
                   now_);
  EXPECT_NE(core_->epochs_version(), version);
  EXPECT_EQ(core_->Epochs().at(0).tuning.version, 2u) << "a restarted coordinator hears of it";
  EXPECT_EQ(BytesSentByAnOp("after"), 32u);
  core_->OnControl(TuningChanged{"job", kToken, Everything(collective::Algorithm::kDirect, 1)},
                   now_);
  EXPECT_EQ(BytesSentByAnOp("older"), 32u);
}

TEST_F(ChoiceTest, AHierarchyWithoutLevelsIsRefusedOnAllRanks) {
  FormJob();
  SubmitWith(collective::Algorithm::kHierarchical);
  AnnounceFromB("x", 8, collective::Algorithm::kHierarchical);
  const auto done = Taken<CompleteOp>();
  ASSERT_THAT(done, SizeIs(2));
  EXPECT_EQ(done[0].outcome, done[1].outcome);
  EXPECT_EQ(done[0].outcome.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(done[0].outcome.text, HasSubstr("hierarchical needs levels"));
  EXPECT_THAT(done[0].outcome.text, HasSubstr("epoch 1 of job \"job\""));
  EXPECT_FALSE(core_->Busy());
}

TEST_F(ChoiceTest, AHierarchyRunsWhereTheEpochHasLevels) {
  EpochInfo epoch = MakeEpoch();
  epoch.levels = {{.groups = {2}, .algorithm = collective::Algorithm::kDirect}};
  FormJob(epoch);
  SubmitWith(collective::Algorithm::kHierarchical);
  AnnounceFromB("x", 8, collective::Algorithm::kHierarchical);
  EXPECT_THAT(Taken<CompleteOp>(), IsEmpty());
  EXPECT_TRUE(core_->Busy());
}

TEST_F(ChoiceTest, AChoiceThatCannotBeFailsTheOpAndNothingElse) {
  FormJob(Turned(MakeEpoch()));
  sender_of_b_ = 0;
  const auto outcome_of = [&](std::uint8_t algorithm, std::uint32_t slice_bytes) {
    const std::string name =
        std::to_string(algorithm) + " with slices of " + std::to_string(slice_bytes) + " bytes";
    SubmitBoth(name);
    Arrive(FromB(FrameKind::kAnnounce, name),
           EncodeAnnounce({.name = name,
                           .algorithm = algorithm,
                           .slice_bytes = slice_bytes,
                           .groups = {{{.elements = 8}, {Rank(2), Rank(3)}}}}));
    const auto done = Taken<CompleteOp>();
    return done.size() == 2 ? done[0].outcome : Outcome{};
  };
  constexpr auto kRing = static_cast<std::uint8_t>(collective::Algorithm::kRing);
  for (const auto& [algorithm, slice_bytes] : {std::pair<std::uint8_t, std::uint32_t>(99, 4096),
                                               {kRing, 0},
                                               {kRing, 1},
                                               {kRing, 4095},
                                               {kRing, (64 << 20) + 1}}) {
    const Outcome outcome = outcome_of(algorithm, slice_bytes);
    EXPECT_EQ(outcome.code, ErrorCode::kInternal);
    EXPECT_THAT(outcome.text,
                HasSubstr("b chose algorithm " + std::to_string(algorithm) + " with slices of " +
                          std::to_string(slice_bytes) + " bytes"));
  }
  EXPECT_TRUE(outcome_of(kRing, 4096).ok());
}

}  // namespace
}  // namespace maypole::agent
