// What agents that attach tell: after a restart of the coordinator, and after a lost stream.
#include "tests/unit/server/cluster.h"

namespace maypole::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

EpochInfo Epoch3(std::uint64_t token = 500, std::uint32_t epoch = 1) {
  return {.job = "train",
          .token = JobToken(token),
          .epoch = Epoch(epoch),
          .world_size = 3,
          .members = {{"a", 1, "host-a", "address-a", {Rank(0), Rank(1)}},
                      {"b", 1, "host-b", "address-b", {Rank(2)}}},
          .reason = "by lowest rank"};
}

ConnectionId AttachWith(Cluster& cluster, const std::string& node, std::vector<EpochInfo> epochs) {
  AgentAttached hello = cluster.Hello(node);
  hello.epochs = std::move(epochs);
  return cluster.Attach(hello);
}

TEST(Adoption, RebuildsARunningJobWithoutANewEpoch) {
  Cluster cluster;
  AttachWith(cluster, "a", {Epoch3()});
  AttachWith(cluster, "b", {Epoch3()});
  const JobView job = cluster.View().jobs.at(0);
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.epoch, Epoch3());
  EXPECT_THAT(job.reason, AllOf(HasSubstr("adopted"), HasSubstr("node a")));
  EXPECT_EQ(cluster.View().counters.jobs_adopted, 1u);
  EXPECT_EQ(cluster.View().counters.epochs_issued, 0u);
  cluster.Pass(2 * kLease);
  EXPECT_EQ(cluster.View().jobs.at(0).state, JobState::kRunning);
  for (const Action& action : cluster.all) {
    EXPECT_FALSE(std::holds_alternative<SendEpoch>(action));
    EXPECT_FALSE(std::holds_alternative<SendJobFailed>(action));
  }
}

TEST(Adoption, KeepsTheNameTaken) {
  Cluster cluster;
  AttachWith(cluster, "a", {Epoch3()});
  const ConnectionId c = cluster.Attach("c");
  cluster.Join(c, 0, 1);
  EXPECT_THAT(cluster.Sent<RefuseJoin>(c), SizeIs(1));
}

TEST(Adoption, GivesTheOtherMembersTheLeaseToAttach) {
  Cluster cluster;
  const ConnectionId a = AttachWith(cluster, "a", {Epoch3()});
  cluster.Pass(kLease - Duration(1));
  EXPECT_EQ(cluster.CountOfLast<SendJobFailed>(), 0u);
  cluster.Pass(Duration(1));
  const auto failures = cluster.Sent<SendJobFailed>(a);
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_THAT(failures[0].text, AllOf(HasSubstr("rank 2"), HasSubstr("host-b")));
}

TEST(Adoption, OfAMemberThatWasStartedAnewFailsTheJob) {
  Cluster cluster;
  cluster.Attach(cluster.Hello("b", 2));
  const ConnectionId a = AttachWith(cluster, "a", {Epoch3()});
  EXPECT_THAT(cluster.Sent<SendJobFailed>(a), SizeIs(1));
  EXPECT_EQ(cluster.View().jobs.at(0).state, JobState::kFailed);
}

TEST(Adoption, LetsRanksOfTheNextRunWaitForItsEnd) {
  Cluster cluster;
  const ConnectionId c = cluster.Attach("c");
  cluster.Join(c, 0, 2);
  const ConnectionId a = AttachWith(cluster, "a", {Epoch3()});
  const ConnectionId b = AttachWith(cluster, "b", {Epoch3()});
  EXPECT_EQ(cluster.View().jobs.at(0).epoch.token, JobToken(500));
  for (std::uint32_t rank : {0u, 1u}) {
    cluster.Leave(a, rank, 500);
    EXPECT_EQ(cluster.CountOfLast<RefuseJoin>(), 0u);
  }
  cluster.Leave(b, 2, 500);
  EXPECT_EQ(cluster.View().jobs.at(0).state, JobState::kForming);
  cluster.Join(c, 1, 2);
  EXPECT_THAT(cluster.Sent<SendEpoch>(c), SizeIs(1));
}

TEST(Adoption, TurnsAwayRanksThatWereFormingTheSameNameAfterTheLease) {
  Cluster cluster;
  const ConnectionId c = cluster.Attach("c");
  cluster.Join(c, 0, 2);
  AttachWith(cluster, "a", {Epoch3()});
  AttachWith(cluster, "b", {Epoch3()});
  cluster.Pass(kLease);
  const auto refusals = cluster.Sent<RefuseJoin>(c);
  ASSERT_THAT(refusals, SizeIs(1));
  EXPECT_THAT(refusals[0].text, HasSubstr("already running"));
  EXPECT_EQ(cluster.View().jobs.at(0).epoch.token, JobToken(500));
}

// The coordinator died after it had sent the epoch to a and before it sent it to b.
TEST(Adoption, SendsTheEpochToRanksOfTheRunThatSaidTheirJoinAgain) {
  Cluster cluster;
  const ConnectionId b = cluster.Attach("b");
  cluster.Join(b, 2, 3);
  const ConnectionId a = AttachWith(cluster, "a", {Epoch3()});
  EXPECT_EQ(cluster.CountOfLast<RefuseJoin>(), 0u);
  ASSERT_THAT(cluster.Sent<SendEpoch>(b), SizeIs(1));
  EXPECT_EQ(cluster.Sent<SendEpoch>(b)[0].epoch, Epoch3());
  cluster.Pass(2 * kLease);
  EXPECT_EQ(cluster.View().jobs.at(0).state, JobState::kRunning);
  cluster.Leave(a, 0, 500);
  cluster.Leave(a, 1, 500);
  EXPECT_THAT(cluster.View().jobs, SizeIs(1)) << "rank 2 sits";
}

TEST(Adoption, OfARunThatFailsAtOnceLeavesTheNameToWhoJoins) {
  Cluster cluster;
  const ConnectionId b = cluster.Attach(cluster.Hello("b", 2));
  cluster.Join(b, 2, 3);
  AttachWith(cluster, "a", {Epoch3()});
  EXPECT_THAT(cluster.Sent<SendEpoch>(b), IsEmpty());
  EXPECT_EQ(cluster.View().jobs.at(0).state, JobState::kForming);
}

TEST(Adoption, OfTwoRunsKeepsTheHigherEpoch) {
  Cluster cluster;
  const ConnectionId a = AttachWith(cluster, "a", {Epoch3(500, 1)});
  AttachWith(cluster, "b", {Epoch3(600, 2)});
  const auto failures = cluster.Sent<SendJobFailed>(a);
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_EQ(failures[0].token, JobToken(500));
  EXPECT_THAT(failures[0].text,
              AllOf(HasSubstr("epoch 1"), HasSubstr("epoch 2"), HasSubstr("node b")));
  EXPECT_EQ(cluster.View().jobs.at(0).epoch.token, JobToken(600));
}

TEST(Adoption, OfTwoRunsInOneEpochKeepsTheFirst) {
  Cluster cluster;
  AttachWith(cluster, "a", {Epoch3(500, 1)});
  const ConnectionId b = AttachWith(cluster, "b", {Epoch3(600, 1)});
  const auto failures = cluster.Sent<SendJobFailed>(b);
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_EQ(failures[0].token, JobToken(600));
  EXPECT_EQ(cluster.View().jobs.at(0).epoch.token, JobToken(500));
}

TEST(Adoption, OfOneRunTakesTheHigherEpochAndSendsItToWhoHasTheLower) {
  Cluster cluster;
  AttachWith(cluster, "a", {Epoch3(500, 2)});
  const ConnectionId b = AttachWith(cluster, "b", {Epoch3(500, 1)});
  ASSERT_THAT(cluster.Sent<SendEpoch>(b), SizeIs(1));
  EXPECT_EQ(cluster.Sent<SendEpoch>(b)[0].epoch.epoch, Epoch(2));
  AttachWith(cluster, "b", {Epoch3(500, 3)});
  EXPECT_EQ(cluster.View().jobs.at(0).epoch.epoch, Epoch(3));
}

TEST(Adoption, IgnoresWhatCannotBe) {
  std::vector<EpochInfo> bad(9, Epoch3());
  bad[0].job = "";
  bad[1].token = JobToken(0);
  bad[2].epoch = Epoch(0);
  bad[3].world_size = 0;
  bad[4].world_size = 4;                // a rank is missing
  bad[5].members[1].ranks = {Rank(1)};  // double
  bad[6].members[1].ranks = {Rank(3)};  // out of range
  bad[7].members[1].node = "a";         // double node
  bad[8].members[0].incarnation = 99;   // not this agent
  for (const EpochInfo& claim : bad) {
    Cluster cluster;
    AttachWith(cluster, "a", {claim});
    EXPECT_THAT(cluster.View().jobs, IsEmpty());
    EXPECT_EQ(cluster.CountOfLast<LogLine>(), 2u) << "attached, and why the epoch was ignored";
  }
}

TEST(Reattachment, WithTheClaimChangesNothing) {
  RunningJob job;
  job.Do(AgentDetached{job.b});
  const ConnectionId b = AttachWith(job, "b", {job.epoch});
  EXPECT_THAT(job.Sent<SendEpoch>(b), IsEmpty());
  job.Pass(2 * kLease);
  EXPECT_EQ(job.View().jobs.at(0).state, JobState::kRunning);
  job.Leave(job.a, 0, 1000);
  job.Leave(job.a, 1, 1000);
  EXPECT_THAT(job.View().jobs, SizeIs(1)) << "rank 2 still sits";
}

TEST(Reattachment, OfAnAgentThatMissedItsEpochGetsItWithItsJoin) {
  RunningJob job;
  job.Do(AgentDetached{job.a});
  const ConnectionId a = job.Attach("a");
  for (std::uint32_t rank : {0u, 1u}) {
    job.Join(a, rank, 3);
    ASSERT_THAT(job.Sent<SendEpoch>(a), SizeIs(1));
    EXPECT_EQ(job.Sent<SendEpoch>(a)[0].epoch, job.epoch);
  }
  job.Join(a, 0, 3);
  EXPECT_THAT(job.Sent<RefuseJoin>(a), SizeIs(1)) << "once only";
}

TEST(Reattachment, WithAnotherWorldSizeGetsNoEpoch) {
  RunningJob job;
  job.Do(AgentDetached{job.b});
  const ConnectionId b = job.Attach("b");
  job.Join(b, 2, 4);
  EXPECT_THAT(job.Sent<RefuseJoin>(b), SizeIs(1));
}

// The ranks closed while the coordinator could not be told.
TEST(Reattachment, WithoutClaimOrJoinLetsTheRanksGoAfterTheLease) {
  RunningJob job;
  for (const char* node : {"a", "b"}) {
    job.Attach(node);
  }
  job.Pass(kLease - Duration(1));
  EXPECT_THAT(job.View().jobs, SizeIs(1));
  job.Pass(Duration(1));
  EXPECT_THAT(job.View().jobs, IsEmpty());
}

TEST(Reattachment, ClaimingAFailedRunIsToldWhyItFailed) {
  RunningJob job;
  job.Do(AgentDetached{job.b});
  job.Leave(job.a, 0, 1000, true);
  const ConnectionId b = AttachWith(job, "b", {job.epoch});
  const auto failures = job.Sent<SendJobFailed>(b);
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_THAT(failures[0].text, HasSubstr("rank 0"));
  EXPECT_EQ(failures[0].culprits, "ranks=0;hosts=host-a");
}

TEST(Reattachment, ClaimingAFailedRunDoesNotStopTheNextOne) {
  RunningJob job;
  job.Do(AgentDetached{job.b});
  job.Leave(job.a, 0, 1000, true);
  job.Join(job.a, 0, 2);
  const ConnectionId b = AttachWith(job, "b", {job.epoch});
  EXPECT_EQ(job.Sent<SendJobFailed>(b).at(0).token, JobToken(1000));
  EXPECT_EQ(job.View().jobs.at(0).state, JobState::kForming);
}

TEST(Reattachment, ClaimingARunThatHasEndedIsToldSo) {
  RunningJob job;
  job.Leave(job.a, 0, 1000);
  job.Leave(job.a, 1, 1000);
  job.Leave(job.b, 2, 1000);
  const ConnectionId b = AttachWith(job, "b", {job.epoch});
  EXPECT_THAT(job.Sent<SendJobFailed>(b).at(0).text, HasSubstr("has ended"));
  EXPECT_THAT(job.View().jobs, IsEmpty());
}

}  // namespace
}  // namespace maypole::server
