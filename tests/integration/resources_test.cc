// What an agent uses: no descriptor and no memory more after many sessions, kills and ops than
// before, and no CPU while nobody asks for anything.
#include <sys/resource.h>

#include <gmock/gmock.h>

#include "tests/support/integration_test.h"
#include "tests/support/ops.h"
#include "tests/support/process_facts.h"
#include "tests/support/rank_process.h"
#include "tests/support/test_cluster.h"

namespace maypole::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kMiB = 1 << 20;

// Descriptors and memory of all agents.
struct Usage {
  explicit Usage(TestCluster& cluster) {
    for (std::uint32_t node = 0; node < cluster.nodes(); ++node) {
      descriptors += OpenDescriptors(cluster.agent(node).pid());
      bytes += AnonymousBytes(cluster.agent(node).pid());
    }
  }

  std::size_t descriptors = 0;
  std::size_t bytes = 0;
};

class ResourcesTest : public IntegrationTest {
 protected:
  // Descriptors are closed a moment after a client's end.
  static void ExpectBackAt(TestCluster& cluster, const Usage& before, std::size_t more_bytes) {
    EXPECT_TRUE(Eventually([&] { return Usage(cluster).descriptors <= before.descriptors; }))
        << Usage(cluster).descriptors << " descriptors after " << before.descriptors;
    EXPECT_LT(Usage(cluster).bytes, before.bytes + more_bytes);
  }
};

TEST_F(ResourcesTest, ManySessionsLeaveNothingInTheAgents) {
  TestCluster cluster({.nodes = 2});
  const auto cycle = [&] {
    std::vector<Session> sessions = cluster.ConnectAll(1);
    ASSERT_THAT(AllReduceAll(sessions, Tensors(sessions, 300'000)), Each("ok"));
  };
  for (int i = 0; i < 20; ++i) {
    cycle();
  }
  const Usage before(cluster);
  for (int i = 0; i < 200; ++i) {
    cycle();
  }
  ExpectBackAt(cluster, before, 4 * kMiB);
}

TEST_F(ResourcesTest, KilledRanksLeaveNothingInTheAgents) {
  TestCluster cluster({.nodes = 2});
  const auto cycle = [&](int number) {
    const std::string job = "job " + std::to_string(number);
    RankProcess victim([&](const RankProcess::Say& say) {
      Session session = cluster.Connect(1, 1, 2, job);
      const auto tensor = session.Allocate<float>(300'000);
      session.AllReduce(tensor).Wait();
      say("one done");
      session.AllReduce(tensor).Wait();  // the other rank submits only this one before the kill
      session.AllReduce(tensor).Wait();
    });
    Session session = cluster.Connect(0, 0, 2, job);
    const auto tensor = session.Allocate<float>(300'000);
    session.AllReduce(tensor).Wait();
    Op second = session.AllReduce(tensor);
    ASSERT_EQ(victim.Listen(), "one done");
    victim.Kill();
    TextOfError([&] { second.Wait(); });
    EXPECT_NE(TextOfError([&] { session.AllReduce(tensor).Wait(); }), "ok");
  };
  for (int i = 0; i < 10; ++i) {
    cycle(i);
  }
  const Usage before(cluster);
  for (int i = 10; i < 60; ++i) {
    cycle(i);
  }
  ExpectBackAt(cluster, before, 4 * kMiB);
}

TEST_F(ResourcesTest, MemoryIsBoundedAndDoesNotGrowWithTheNumberOfOps) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  const auto tensors = Tensors(sessions, 1000);
  const auto reduce = [&](int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_THAT(AllReduceAll(sessions, tensors, {.name = "w" + std::to_string(i % 100)}),
                  Each("ok"));
    }
  };
  reduce(1000);
  const Usage before(cluster);
  reduce(10'000);
  ExpectBackAt(cluster, before, kMiB);
  for (std::uint32_t node = 0; node < cluster.nodes(); ++node) {
    EXPECT_LT(AnonymousBytes(cluster.agent(node).pid()), 64 * kMiB);
  }
}

TEST_F(ResourcesTest, MemoryThatARankCannotTakeIsNotKeptForIt) {
  TestCluster cluster({.nodes = 1, .agent_arguments = {"--segment-bytes-max", "8MiB"}});
  Session session = cluster.Connect(0, 0, 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::vector<std::string> texts;
  for (int i = 0; i < 5; ++i) {
    texts.push_back(TextOfError([&] { session.Allocate<std::byte>(5 * kMiB); }));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(texts, Each(AllOf(StartsWith("resource exhausted: "), HasSubstr("ulimit -n"))));
  EXPECT_EQ(TextOfError([&] { session.Allocate<std::byte>(5 * kMiB); }), "ok");
}

TEST_F(ResourcesTest, AnIdleJobCostsNoCpu) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  ASSERT_THAT(AllReduceAll(sessions, Tensors(sessions, 1000)), Each("ok"));
  const double agents[] = {CpuSeconds(cluster.agent(0).pid()), CpuSeconds(cluster.agent(1).pid())};
  const double coordinator = CpuSeconds(cluster.coordinator().pid());
  const Stopwatch watch;
  EXPECT_FALSE(Eventually([] { return false; }, std::chrono::seconds(2)));
  for (const std::uint32_t node : {0, 1}) {
    EXPECT_LT(CpuSeconds(cluster.agent(node).pid()) - agents[node], 0.01 * watch.Seconds());
  }
  EXPECT_LT(CpuSeconds(cluster.coordinator().pid()) - coordinator, 0.01 * watch.Seconds());
}

TEST_F(ResourcesTest, RanksThatWaitForALateOneCostNoCpu) {
  TestCluster cluster({.nodes = 2});
  RankProcess waiting([&](const RankProcess::Say& say) {
    Session session = cluster.Connect(0, 0, 2);
    Op op = session.AllReduce(session.Allocate<float>(1000));
    say("submitted");
    say(TextOfError([&] { op.Wait(); }));
  });
  Session late = cluster.Connect(1, 1, 2);
  ASSERT_EQ(waiting.Listen(), "submitted");
  const double rank = CpuSeconds(waiting.pid());
  const double agents[] = {CpuSeconds(cluster.agent(0).pid()), CpuSeconds(cluster.agent(1).pid())};
  const Stopwatch watch;
  EXPECT_FALSE(Eventually([] { return false; }, std::chrono::seconds(2)));
  EXPECT_LT(CpuSeconds(waiting.pid()) - rank, 0.01 * watch.Seconds());
  for (const std::uint32_t node : {0, 1}) {
    EXPECT_LT(CpuSeconds(cluster.agent(node).pid()) - agents[node], 0.01 * watch.Seconds());
  }
  late.AllReduce(late.Allocate<float>(1000)).Wait();
  EXPECT_EQ(waiting.Listen(), "ok");
}

}  // namespace
}  // namespace maypole::test
