// Attaching, detaching and leases.
#include "tests/unit/server/cluster.h"

namespace maypole::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string RefusalOf(Cluster& cluster, const AgentAttached& hello) {
  cluster.Attach(hello);
  const auto refusals = cluster.Sent<RefuseAgent>(hello.connection);
  EXPECT_THAT(cluster.Sent<SendWelcome>(hello.connection), SizeIs(refusals.empty() ? 1 : 0));
  return refusals.empty() ? "" : refusals[0].text;
}

TEST(Agents, AreWelcomed) {
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  EXPECT_THAT(cluster.Sent<SendWelcome>(a), SizeIs(1));
  const Snapshot view = cluster.View();
  ASSERT_THAT(view.nodes, SizeIs(1));
  EXPECT_EQ(view.nodes[0].node, "a");
  EXPECT_EQ(view.nodes[0].connection, a);
}

TEST(Agents, OfAnotherProtocolAreRefusedWithBothVersions) {
  Cluster cluster;
  AgentAttached hello = cluster.Hello("a");
  hello.protocol = kControlProtocol + 1;
  hello.version = "9.9";
  EXPECT_THAT(RefusalOf(cluster, hello),
              AllOf(HasSubstr("version 9.9"),
                    HasSubstr("protocol " + std::to_string(kControlProtocol + 1)),
                    HasSubstr("version 1.0"),
                    HasSubstr("protocol " + std::to_string(kControlProtocol))));
  EXPECT_THAT(cluster.View().nodes, IsEmpty());
  EXPECT_EQ(cluster.View().counters.agents_refused, 1u);
}

TEST(Agents, WithAnUnusableNodeNameAreRefused) {
  Cluster cluster;
  for (const std::string& name :
       {std::string(), std::string(kNodeNameBytesMax + 1, 'x'), std::string("a\nb")}) {
    EXPECT_THAT(RefusalOf(cluster, cluster.Hello(name)), HasSubstr("node name")) << name;
  }
  EXPECT_EQ(RefusalOf(cluster, cluster.Hello(std::string(kNodeNameBytesMax, 'x'))), "");
}

TEST(Agents, SecondProcessOnANodeIsRefusedNamingTheFirst) {
  Cluster cluster;
  const ConnectionId first = cluster.Attach("a");
  AgentAttached second = cluster.Hello("a", 2);
  second.host = "elsewhere";
  EXPECT_THAT(
      RefusalOf(cluster, second),
      AllOf(HasSubstr("\"a\""), HasSubstr("a:7710"), HasSubstr("host-a"), HasSubstr("elsewhere")));
  EXPECT_EQ(cluster.View().nodes.at(0).connection, first);
  cluster.Join(second.connection, 0, 1);
  EXPECT_THAT(cluster.last, IsEmpty()) << "a refused agent has no say";
}

TEST(Agents, SameProcessReplacesItsOldStream) {
  Cluster cluster;
  const ConnectionId first = cluster.Attach("a");
  const ConnectionId second = cluster.Attach(cluster.Hello("a"));
  EXPECT_THAT(cluster.Sent<CloseConnection>(first), SizeIs(1));
  EXPECT_THAT(cluster.Sent<SendWelcome>(second), SizeIs(1));
  cluster.Do(AgentDetached{first});
  EXPECT_EQ(cluster.View().nodes.at(0).connection, second)
      << "the old stream's end changes nothing";
}

TEST(Agents, AreLimitedInNumber) {
  Cluster cluster({.version = "1.0", .nodes_max = 2});
  cluster.Attach("a");
  cluster.Attach("b");
  EXPECT_THAT(RefusalOf(cluster, cluster.Hello("c")), HasSubstr("2 nodes"));
}

TEST(Agents, DetachedAreShownAndForgottenAfterTheLease) {
  Cluster cluster;
  const ConnectionId a = cluster.Attach("a");
  cluster.Do(AgentDetached{a});
  EXPECT_EQ(cluster.View().nodes.at(0).connection, 0u);
  cluster.Pass(kLease - Duration(1));
  EXPECT_THAT(cluster.View().nodes, SizeIs(1));
  cluster.Pass(Duration(1));
  EXPECT_THAT(cluster.View().nodes, IsEmpty());
}

TEST(Agents, AttachedNeverExpire) {
  Cluster cluster;
  cluster.Attach("a");
  cluster.Pass(100 * kLease);
  EXPECT_THAT(cluster.View().nodes, SizeIs(1));
}

TEST(Agents, LossOfTheStreamAloneHurtsNoRunningJob) {
  RunningJob job;
  job.Do(AgentDetached{job.b});
  job.Pass(kLease - Duration(1));
  EXPECT_EQ(job.CountOfLast<SendJobFailed>(), 0u);
  EXPECT_EQ(job.View().jobs.at(0).state, JobState::kRunning);
}

TEST(Agents, ThatStayAwayFailTheirRunningJobsNamingRanksAndHost) {
  RunningJob job;
  job.Do(AgentDetached{job.a});
  job.Pass(kLease);
  const auto failures = job.Sent<SendJobFailed>(job.b);
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_EQ(failures[0].token, job.epoch.token);
  EXPECT_THAT(failures[0].text,
              AllOf(HasSubstr("ranks 0, 1"), HasSubstr("host-a"), HasSubstr("10 s")));
  EXPECT_EQ(failures[0].culprits, "ranks=0,1;hosts=host-a");
  EXPECT_EQ(job.View().jobs.at(0).state, JobState::kFailed);
  EXPECT_THAT(job.View().jobs.at(0).reason, HasSubstr("host-a"));
}

TEST(Agents, WhoseRanksHaveLeftMayGoWithoutHarm) {
  RunningJob job;
  job.Leave(job.b, 2, 1000);
  job.Do(AgentDetached{job.b});
  job.Pass(kLease);
  EXPECT_EQ(job.CountOfLast<SendJobFailed>(), 0u);
  EXPECT_EQ(job.View().jobs.at(0).state, JobState::kRunning);
}

TEST(Agents, ANewProcessAfterADetachedOneFailsTheOldOnesJobsAtOnce) {
  RunningJob job;
  job.Do(AgentDetached{job.b});
  job.Attach(job.Hello("b", 2));
  const auto failures = job.Sent<SendJobFailed>(job.a);
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_THAT(failures[0].text, AllOf(HasSubstr("rank 2"), HasSubstr("started anew")));
}

TEST(Agents, OfAFailedJobThatExpireLetItBeForgotten) {
  RunningJob job;
  job.Leave(job.b, 2, 1000, true);
  job.Do(AgentDetached{job.a});
  job.Pass(kLease);
  EXPECT_THAT(job.View().jobs, IsEmpty());
}

TEST(Agents, EventsOfUnknownConnectionsAreIgnored) {
  Cluster cluster;
  cluster.Do(AgentDetached{77});
  cluster.Join(77, 0, 1);
  cluster.Leave(77, 0, 0);
  cluster.Do(FailureReported{77, "train", JobToken(1), Epoch(1), "x", ""});
  EXPECT_THAT(cluster.all, IsEmpty());
}

}  // namespace
}  // namespace maypole::server
