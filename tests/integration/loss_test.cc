// Somebody dies, hangs or leaves while ops run: the others are told whom they lost, in
// time, and stay told; then the name of the job is free again.
#include <signal.h>

#include <atomic>
#include <functional>
#include <future>
#include <span>

#include <gmock/gmock.h>

#include "tests/support/integration_test.h"
#include "tests/support/ops.h"
#include "tests/support/process_facts.h"
#include "tests/support/rank_process.h"
#include "tests/support/test_cluster.h"

namespace maypole::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kCount = 3 << 18;  // as many blocks as ranks, 2 to 4
constexpr int kOpsBeforeFault = 10;

struct Ending {
  std::string text;
  double seconds = 0;  // after the fault
};

// One op of this rank, or what else it does in a step; `output` is as large as the tensor.
using Step =
    std::function<void(Session& session, std::span<float> tensor, std::span<float> output)>;

void AllReduceStep(Session& session, std::span<float> tensor, std::span<float> /*output*/) {
  session.AllReduce(tensor, {.name = "gradient"}).Wait();
}

class LossTest : public IntegrationTest {
 protected:
  // Takes steps until an error.
  static std::string StepUntilError(Session& session,
                                    const Step& step,
                                    const std::function<void()>& after_each) {
    const auto tensor = session.Allocate<float>(kCount);
    const auto output = session.Allocate<float>(kCount);
    std::string text = "ok";
    while (text == "ok") {
      text = TextOfError([&] { step(session, tensor, output); });
      after_each();
    }
    return text;
  }

  // All sessions take steps until an error; `fault` happens in the midst of it.
  static std::vector<Ending> EndingsOf(std::vector<Session>& sessions,
                                       const std::function<void()>& fault,
                                       const Step& step = AllReduceStep) {
    std::atomic<int> ops = 0;
    Stopwatch watch;
    std::vector<std::future<Ending>> running;
    for (Session& session : sessions) {
      running.push_back(std::async(std::launch::async, [&] {
        const std::string text = StepUntilError(session, step, [&] { ++ops; });
        return Ending{text, watch.Seconds()};
      }));
    }
    EXPECT_TRUE(Eventually([&] { return ops > kOpsBeforeFault; }));
    const double at = watch.Seconds();
    fault();
    std::vector<Ending> endings;
    for (auto& one : running) {
      endings.push_back(one.get());
      endings.back().seconds -= at;
    }
    return endings;
  }

  // Every later call has the same culprits as the first failure.
  static void ExpectStaysFailed(Session& session, const std::string& text) {
    const std::string culprits = text.substr(text.rfind('['));
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(TextOfError([&] { session.Barrier().Wait(); }),
                  AllOf(StartsWith("peer lost: "), HasSubstr(culprits)));
    }
    EXPECT_THAT(TextOfError([&] { session.Allocate<float>(100); }),
                AllOf(StartsWith("peer lost: "), HasSubstr(culprits)));
  }

  static RankProcess RankThatReduces(const TestCluster& cluster,
                                     std::uint32_t node,
                                     std::uint32_t rank,
                                     std::uint32_t world_size) {
    return RankProcess([&cluster, node, rank, world_size](const RankProcess::Say& say) {
      Session session = cluster.Connect(node, rank, world_size);
      int ops = 0;
      say(StepUntilError(session, AllReduceStep, [&] {
        if (++ops == kOpsBeforeFault) {
          say("running");
        }
      }));
    });
  }
};

TEST_F(LossTest, AKilledRankIsNamedToAllOthersWithinASecond) {
  TestCluster cluster({.nodes = 2});
  RankProcess victim = RankThatReduces(cluster, 0, 1, 4);
  std::vector<Session> sessions = cluster.ConnectAll(2, "job", 1);
  const auto endings = EndingsOf(sessions, [&] {
    ASSERT_EQ(victim.Listen(), "running");
    victim.Kill();
  });
  for (std::size_t i = 0; i < endings.size(); ++i) {
    EXPECT_THAT(endings[i].text,
                AllOf(StartsWith("peer lost: "),
                      HasSubstr("rank 1 "),
                      HasSubstr("node-0"),
                      HasSubstr("[ranks=1;")));
    EXPECT_LT(endings[i].seconds, 1.0);
    ExpectStaysFailed(sessions[i], endings[i].text);
  }
}

TEST_F(LossTest, ARankKilledBeforeItSubmittedEndsTheWaitOfTheOthers) {
  TestCluster cluster({.nodes = 2});
  RankProcess victim([&](const RankProcess::Say& say) {
    Session session = cluster.Connect(1, 1, 2);
    say("joined");
    pause();
  });
  std::vector<Session> sessions = cluster.ConnectAll(1, "job", 1);
  ASSERT_EQ(victim.Listen(), "joined");
  Op op = sessions[0].AllReduce(sessions[0].Allocate<float>(kCount), {.name = "w"});
  EXPECT_FALSE(op.Test());
  const Stopwatch watch;
  victim.Kill();
  EXPECT_THAT(TextOfError([&] { op.Wait(); }),
              AllOf(StartsWith("peer lost: "),
                    HasSubstr("rank 1 "),
                    HasSubstr("node-1"),
                    HasSubstr("without closing")));
  EXPECT_LT(watch.Seconds(), 1.0);
}

struct NamedStep {
  const char* name;
  Step step;
};

class AgentLossTest : public LossTest, public ::testing::WithParamInterface<NamedStep> {};

const NamedStep kSteps[] = {
    {"AllReduce", AllReduceStep},
    {"ReduceScatter",
     [](Session& session, std::span<float> tensor, std::span<float>) {
       session.ReduceScatter(tensor).Wait();
     }},
    {"AllGather",
     [](Session& session, std::span<float> tensor, std::span<float>) {
       session.AllGather(tensor).Wait();
     }},
    {"Broadcast",
     [](Session& session, std::span<float> tensor, std::span<float>) {
       session.Broadcast(tensor, 0).Wait();
     }},
    {"BroadcastOfTheVictim",
     [](Session& session, std::span<float> tensor, std::span<float>) {
       session.Broadcast(tensor, 1).Wait();
     }},
    {"Reduce",
     [](Session& session, std::span<float> tensor, std::span<float>) {
       session.Reduce(tensor, 0).Wait();
     }},
    {"ReduceToTheVictim",
     [](Session& session, std::span<float> tensor, std::span<float>) {
       session.Reduce(tensor, 1).Wait();
     }},
    {"AllToAll",
     [](Session& session, std::span<float> tensor, std::span<float> output) {
       session.AllToAll(std::span<const float>(tensor), output).Wait();
     }},
    {"SendAndReceive",
     [](Session& session, std::span<float> tensor, std::span<float> output) {
       const std::int64_t ranks = session.world_size();
       Op received = session.Recv(output, (session.rank() + ranks - 1) % ranks);
       session.Send(std::span<const float>(tensor), (session.rank() + 1) % ranks).Wait();
       received.Wait();
     }},
    {"Barrier",
     [](Session& session, std::span<float>, std::span<float>) { session.Barrier().Wait(); }},
};

INSTANTIATE_TEST_SUITE_P(Of, AgentLossTest, ::testing::ValuesIn(kSteps), [](const auto& tested) {
  return tested.param.name;
});

TEST_P(AgentLossTest, IsToldToTheRanksOfTheOthersWithinASecond) {
  TestCluster cluster({.nodes = 3});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  const auto endings = EndingsOf(
      sessions, [&] { cluster.agent(1).Signal(SIGKILL); }, GetParam().step);
  for (const std::size_t rank : {0, 2}) {
    EXPECT_THAT(endings[rank].text,
                AllOf(StartsWith("peer lost: "), HasSubstr("node-1"), HasSubstr("[ranks=1;")));
    EXPECT_LT(endings[rank].seconds, 1.0);
    ExpectStaysFailed(sessions[rank], endings[rank].text);
  }
  EXPECT_THAT(endings[1].text,
              AllOf(StartsWith("agent unavailable: "), HasSubstr(cluster.SocketOf(1))));
  EXPECT_LT(endings[1].seconds, 1.0);
}

TEST_F(LossTest, ARankThatLeavesAtTheFirstContactIsKnownToHaveLeft) {
  TestCluster cluster({.nodes = 2});
  for (std::uint32_t round = 0; round < 20; ++round) {
    std::vector<Session> sessions = cluster.ConnectAll(1);
    Session stays = std::move(sessions[round % 2]);
    sessions.clear();
    const Stopwatch watch;
    ASSERT_THAT(TextOfError([&] { stays.Barrier().Wait(); }),
                AllOf(StartsWith("peer lost: "), HasSubstr("closed its session")));
    ASSERT_LT(watch.Seconds(), 1.0);
  }
}

TEST_F(LossTest, AnAgentThatIsStoppedIsLostWhenItsLeaseRunsOut) {
  TestCluster cluster({.nodes = 3, .agent_arguments = {"--peer-lease", "1s"}});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  const auto silent = std::exchange(sessions[1], cluster.Connect(0, 0, 1, "unrelated"));
  std::vector<Session> watched;
  watched.push_back(std::move(sessions[0]));
  watched.push_back(std::move(sessions[2]));
  // Rank 1 has submitted nothing: the others wait for it, and its agent still says that it lives.
  const auto tensors = Tensors(watched, kCount);
  std::vector<Op> ops = SubmitAll(watched, tensors);
  EXPECT_FALSE(ops[0].WaitFor(1.5));
  const Stopwatch watch;
  cluster.agent(1).Signal(SIGSTOP);
  for (Op& op : ops) {
    EXPECT_THAT(TextOfError([&] { op.Wait(); }),
                AllOf(StartsWith("peer lost: "),
                      HasSubstr("node-1"),
                      HasSubstr("no sign of life for 1.0 s"),
                      HasSubstr("[ranks=1;")));
  }
  EXPECT_GT(watch.Seconds(), 0.6);
  EXPECT_LT(watch.Seconds(), 1.5);
  EXPECT_THAT(tensors[0], Each(1.0F));
}

TEST_F(LossTest, AnAgentThatIsStoppedInTheMidstOfAnOpIsLostWhenItsLeaseRunsOut) {
  TestCluster cluster({.nodes = 3, .agent_arguments = {"--peer-lease", "1s"}});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  const auto endings = EndingsOf(sessions, [&] { cluster.agent(1).Signal(SIGSTOP); });
  for (const std::size_t rank : {0, 2}) {
    EXPECT_THAT(endings[rank].text,
                AllOf(StartsWith("peer lost: "), HasSubstr("node-1"), HasSubstr("[ranks=1;")));
    EXPECT_LT(endings[rank].seconds, 1.5);
  }
  EXPECT_THAT(endings[1].text,
              AllOf(StartsWith("agent unavailable: "), HasSubstr("no sign of life for 1.0 s")));
  EXPECT_LT(endings[1].seconds, 2.0);
}

// Only one side has closed its end of their connection.
TEST_F(LossTest, AnAgentThatGoesOnAfterItWasLostServesTheNextJob) {
  TestCluster cluster({.nodes = 3, .agent_arguments = {"--peer-lease", "1s"}});
  for (int round = 0; round < 2; ++round) {
    {
      std::vector<Session> sessions = cluster.ConnectAll(1);
      cluster.agent(1).Signal(SIGSTOP);
      std::vector<Session> others;
      others.push_back(std::move(sessions[0]));
      others.push_back(std::move(sessions[2]));
      EXPECT_THAT(AllReduceAll(others, Tensors(others, 100)), Each(StartsWith("peer lost: ")));
      cluster.agent(1).Signal(SIGCONT);
    }
    std::vector<Session> sessions = cluster.ConnectAll(1);
    const auto tensors = Tensors(sessions, 1 << 20);
    EXPECT_THAT(AllReduceAll(sessions, tensors, {.timeout = 20}), Each("ok"));
    EXPECT_THAT(tensors[1], Each(6.0F));
  }
}

TEST_F(LossTest, ARankThatClosesInPeaceIsNamedToThoseWhoSubmitMore) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  EXPECT_THAT(AllReduceAll(sessions, Tensors(sessions, 100), {.name = "w"}), Each("ok"));
  sessions.pop_back();
  const auto tensors = Tensors(sessions, 100);
  EXPECT_THAT(AllReduceAll(sessions, tensors, {.name = "w"}),
              Each(AllOf(StartsWith("peer lost: "),
                         HasSubstr("all_reduce \"w\" #1 can never complete"),
                         HasSubstr("rank 3 on node-1"),
                         HasSubstr("closed its session"),
                         HasSubstr("[ranks=3;"))));
  EXPECT_THAT(tensors[1], Each(2.0F));
}

TEST_F(LossTest, AnOpThatFailedLeavesTheTensorsAsTheyWereSubmitted) {
  TestCluster cluster({.nodes = 3});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  const auto tensors = Tensors(sessions, 16 << 20);
  std::vector<Op> ops = SubmitAll(sessions, tensors);
  cluster.agent(1).Signal(SIGKILL);
  for (const std::size_t rank : {0, 2}) {
    // The op may have been quicker.
    const bool is_reduced = TextOfError([&] { ops[rank].Wait(); }) == "ok";
    const float value = is_reduced ? 6.0F : static_cast<float>(rank + 1);
    EXPECT_EQ(std::count(tensors[rank].begin(), tensors[rank].end(), value),
              static_cast<std::ptrdiff_t>(tensors[rank].size()));
  }
}

TEST_F(LossTest, AfterAFailureTheNameIsFreeAsSoonAsAllSessionsAreClosed) {
  TestCluster cluster({.nodes = 2});
  for (int round = 0; round < 3; ++round) {
    RankProcess victim = RankThatReduces(cluster, 0, 1, 4);
    std::vector<Session> sessions = cluster.ConnectAll(2, "job", 1);
    for (const Ending& ending : EndingsOf(sessions, [&] { victim.Kill(); })) {
      EXPECT_THAT(ending.text, AllOf(StartsWith("peer lost: "), HasSubstr("[ranks=1;")));
    }
  }
  std::vector<Session> sessions = cluster.ConnectAll(2);
  EXPECT_THAT(AllReduceAll(sessions, Tensors(sessions, 100)), Each("ok"));
}

TEST_F(LossTest, AfterAnEndInPeaceTheNameIsFreeAtOnce) {
  TestCluster cluster({.nodes = 2});
  for (int round = 0; round < 30; ++round) {
    std::vector<Session> sessions = cluster.ConnectAll(2);
    EXPECT_THAT(AllReduceAll(sessions, Tensors(sessions, 100)), Each("ok"));
  }
}

}  // namespace
}  // namespace maypole::test
