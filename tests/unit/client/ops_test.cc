#include <chrono>
#include <cstring>
#include <fstream>
#include <latch>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/segment_layout.h"
#include "tests/unit/client/fake_agent.h"
#include "tests/unit/client/test_session.h"

namespace maypole::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// An agent that takes ops and never ends them.
FakeAgent::Hooks Holding() {
  FakeAgent::Hooks hooks;
  hooks.on_submission = [](FakeAgent&, const agent::Submission&) {};
  return hooks;
}

TEST(Memory, IsZeroedAlignedAndSeenByTheAgent) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  float* small = AllocateFloats(session, 3);
  float* large = AllocateFloats(session, 1 << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % 64, 0u);
  EXPECT_EQ(std::accumulate(large, large + (1 << 20), 0.0f), 0.0f);
  agent.Do([](agent::SegmentServer& server) { EXPECT_EQ(server.SegmentBytes(), 8u << 20); });
  EXPECT_EQ(maypole_free(session.get(), large), MAYPOLE_OK);
  EXPECT_EQ(maypole_free(session.get(), large), MAYPOLE_INVALID_ARGUMENT);
  EXPECT_EQ(maypole_free(session.get(), nullptr), MAYPOLE_OK);
  maypole_agent_stats stats;  // its reply comes after the free was read
  ASSERT_EQ(maypole_get_agent_stats(session.get(), &stats), MAYPOLE_OK);
  agent.Do([](agent::SegmentServer& server) { EXPECT_EQ(server.SegmentBytes(), 4u << 20); });
  void* memory = nullptr;
  EXPECT_EQ(maypole_alloc(session.get(), 0, &memory), MAYPOLE_OK);
  EXPECT_EQ(maypole_free(session.get(), memory), MAYPOLE_OK);
}

TEST(Memory, LimitsAreToldWithWhatWasAskedAndWhatIsAllowed) {
  agent::SegmentServerOptions options;
  options.segment_bytes_per_session_max = 8 << 20;
  options.segments_per_session_max = 2;
  FakeAgent agent(FakeAgent::Hooks(), options);
  const SessionPtr session = Connect(agent.path());
  void* memory = nullptr;
  void* kept = nullptr;
  EXPECT_EQ(maypole_alloc(session.get(), (8 << 20) + 1, &memory), MAYPOLE_RESOURCE_EXHAUSTED);
  EXPECT_THAT(maypole_last_error(), HasSubstr("8388608"));
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(maypole_alloc(session.get(), 3 << 20, &kept), MAYPOLE_OK);
  EXPECT_EQ(maypole_alloc(session.get(), 3 << 20, &memory), MAYPOLE_OK);
  EXPECT_EQ(maypole_alloc(session.get(), 1 << 20, &memory), MAYPOLE_RESOURCE_EXHAUSTED);
  EXPECT_THAT(maypole_last_error(), HasSubstr("2 segments"));
  EXPECT_EQ(maypole_free(session.get(), kept), MAYPOLE_OK);
  EXPECT_EQ(maypole_alloc(session.get(), 1 << 20, &memory), MAYPOLE_OK);
}

TEST(Memory, OneSessionCannotTakeAllSegmentsWithoutBeingNamed) {
  agent::SegmentServerOptions options;
  options.segments_max = 3;
  FakeAgent agent(FakeAgent::Hooks(), options);
  SessionPtr greedy = Connect(agent.path());
  for (int i = 0; i < 3; ++i) {
    AllocateFloats(greedy, 1 << 20);
  }
  const SessionPtr other = Connect(agent.path());
  void* memory = nullptr;
  EXPECT_EQ(maypole_alloc(other.get(), 3 << 20, &memory), MAYPOLE_RESOURCE_EXHAUSTED);
  EXPECT_THAT(
      maypole_last_error(),
      AllOf(HasSubstr("3 segments"), HasSubstr("process " + std::to_string(getpid()) + " has 3")));
  greedy.reset();
  agent.Await<agent::ClientGone>(1);
  EXPECT_EQ(maypole_alloc(other.get(), 3 << 20, &memory), MAYPOLE_OK) << maypole_last_error();
}

TEST(Memory, OfOpsThatFailedIsGivenBackWhenItIsFreed) {
  FakeAgent::Hooks hooks;
  hooks.on_submission = [](FakeAgent& refusing, const agent::Submission& op) {
    refusing.Fail(op, {ErrorCode::kMismatch, "the ranks disagree", ""});
  };
  agent::SegmentServerOptions options;
  options.segments_per_session_max = 2;
  FakeAgent agent(hooks, options);
  const SessionPtr session = Connect(agent.path());
  for (int i = 0; i < 5; ++i) {
    float* values = AllocateFloats(session, 1 << 20);
    OpPtr op = AllReduce(session, values, 1 << 20);
    EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_MISMATCH);
    EXPECT_EQ(maypole_free(session.get(), values), MAYPOLE_OK);
  }
}

TEST(Op, InSessionMemoryIsReducedInPlaceWithoutACopy) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  float* values = AllocateFloats(session, 1000);
  std::iota(values, values + 1000, 0.0f);
  maypole_op_options options{};
  options.name = "layer1";
  options.priority = -7;
  options.timeout = 2.5;
  options.reduction = MAYPOLE_MEAN;
  options.algorithm = MAYPOLE_NAIVE;
  OpPtr op = AllReduce(session, values + 10, 990, options);
  ASSERT_EQ(maypole_wait(op.get()), MAYPOLE_OK) << maypole_last_error();
  EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_OK);
  EXPECT_EQ(maypole_test(op.get()), 1);
  EXPECT_EQ(maypole_op_result(op.get()), nullptr);
  EXPECT_EQ(values[9], 9.0f);
  EXPECT_EQ(values[10], 11.0f);
  EXPECT_EQ(values[999], 1000.0f);
  const auto ops = agent.Await<agent::Submission>(1);
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].name, "layer1");
  EXPECT_EQ(ops[0].priority, -7);
  EXPECT_EQ(ops[0].timeout, std::chrono::milliseconds(2500));
  EXPECT_EQ(ops[0].reduction, Reduction::kMean);
  EXPECT_EQ(ops[0].algorithm, collective::Algorithm::kNaive);
  EXPECT_EQ(ops[0].elements, 990u);
  EXPECT_EQ(ops[0].tensor.bytes, 3960u);
  EXPECT_FALSE(ops[0].overwrite);
  EXPECT_FALSE(ops[0].shared_result);
}

TEST(Op, OnOrdinaryMemoryIsStagedAndCopiedBack) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  for (const std::size_t count : {1u, 1000u, 1u << 20}) {
    std::vector<float> values(count, 2.0f);
    OpPtr op = AllReduce(session, values.data(), count);
    ASSERT_EQ(maypole_wait(op.get()), MAYPOLE_OK) << maypole_last_error();
    EXPECT_THAT(values, Each(3.0f));
  }
  for (const auto& op : agent.Await<agent::Submission>(3)) {
    EXPECT_TRUE(op.overwrite);
    EXPECT_EQ(op.name, "");
  }
}

TEST(Op, OnOrdinaryMemoryThatFailsLeavesTheInput) {
  FakeAgent::Hooks hooks;
  hooks.on_submission = [](FakeAgent& failing, const agent::Submission& failed) {
    std::memset(failed.tensor.address, 0xff, failed.tensor.bytes);
    failing.Fail(failed, {ErrorCode::kPeerLost, "rank 3 on node-b died", "ranks=3;hosts=node-b"});
  };
  FakeAgent agent(hooks);
  const SessionPtr session = Connect(agent.path());
  std::vector<float> values(1000, 2.0f);
  OpPtr failed = AllReduce(session, values.data(), values.size());
  EXPECT_EQ(maypole_wait(failed.get()), MAYPOLE_PEER_LOST);
  EXPECT_STREQ(maypole_last_error(), "rank 3 on node-b died");
  EXPECT_STREQ(maypole_last_error_culprits(), "ranks=3;hosts=node-b");
  EXPECT_THAT(values, Each(2.0f));
  EXPECT_EQ(maypole_wait(failed.get()), MAYPOLE_PEER_LOST);
}

TEST(Op, ThatNobodyWaitedForLeavesOrdinaryMemoryAlone) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  std::vector<float> values(1000, 2.0f);
  OpPtr op = AllReduce(session, values.data(), values.size());
  ASSERT_EQ(maypole_wait_for(op.get(), 10), 1);
  op.reset();
  EXPECT_THAT(values, Each(2.0f));
  AllReduce(session, values.data(), values.size()).reset();
  EXPECT_THAT(values, Each(2.0f));
}

TEST(Op, OfZeroElementsAndABarrierMeetTheAgent) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  OpPtr empty = AllReduce(session, nullptr, 0);
  EXPECT_EQ(maypole_wait(empty.get()), MAYPOLE_OK);
  maypole_op* barrier = nullptr;
  ASSERT_EQ(maypole_barrier(session.get(), "all", 1.0, &barrier), MAYPOLE_OK);
  const OpPtr owned(barrier);
  EXPECT_EQ(maypole_wait(barrier), MAYPOLE_OK);
  const auto ops = agent.Await<agent::Submission>(2);
  EXPECT_EQ(ops[0].elements, 0u);
  EXPECT_EQ(ops[1].collective, collective::Collective::kBarrier);
  EXPECT_EQ(ops[1].name, "all");
}

TEST(Op, WithASharedResultReadsItInPlaceAndGivesItBack) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  maypole_op_options options{};
  options.shared_result = 1;
  float* input = AllocateFloats(session, 100);
  std::iota(input, input + 100, 0.0f);
  for (int i = 0; i < 3; ++i) {
    OpPtr op = AllReduce(session, input, 100, options);
    ASSERT_EQ(maypole_wait(op.get()), MAYPOLE_OK) << maypole_last_error();
    const auto* result = static_cast<const float*>(maypole_op_result(op.get()));
    ASSERT_NE(result, nullptr);
    EXPECT_EQ(result[99], 100.0f);
    EXPECT_EQ(input[99], 99.0f);
    EXPECT_EQ(agent.Await<agent::ResultReleased>(0).size(), static_cast<std::size_t>(i));
    op.reset();
    EXPECT_EQ(agent.Await<agent::ResultReleased>(static_cast<std::size_t>(i) + 1).size(),
              static_cast<std::size_t>(i) + 1);
  }
  std::vector<float> ordinary(100, 5.0f);
  OpPtr op = AllReduce(session, ordinary.data(), 100, options);
  ASSERT_EQ(maypole_wait(op.get()), MAYPOLE_OK);
  EXPECT_EQ(static_cast<const float*>(maypole_op_result(op.get()))[0], 6.0f);
  EXPECT_THAT(ordinary, Each(5.0f));
}

// Mappings of shared results in this process; the agent here has one, to write.
std::size_t MappedResults() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find(" r--s ") != line.npos && line.find("memfd:results") != line.npos ? 1 : 0;
  }
  return count;
}

TEST(Op, WithASharedResultKeepsOnlyMappingsThatHaveAUser) {
  FakeAgent::Hooks hooks;
  hooks.result_segments = 1000;
  FakeAgent agent(hooks);
  const SessionPtr session = Connect(agent.path());
  maypole_op_options options{};
  options.shared_result = 1;
  float* input = AllocateFloats(session, 100);
  OpPtr held = AllReduce(session, input, 100, options);
  ASSERT_EQ(maypole_wait(held.get()), MAYPOLE_OK) << maypole_last_error();
  for (int i = 0; i < 50; ++i) {
    OpPtr first = AllReduce(session, input, 100, options);
    OpPtr second = AllReduce(session, input, 100, options);
    ASSERT_EQ(maypole_wait(second.get()), MAYPOLE_OK) << maypole_last_error();
    ASSERT_EQ(maypole_wait(first.get()), MAYPOLE_OK) << maypole_last_error();
    EXPECT_LE(MappedResults(), 3u);
  }
  EXPECT_EQ(static_cast<const float*>(maypole_op_result(held.get()))[99], 1.0f);
}

TEST(Op, ThatReachesOutsideItsAllocationIsRefusedBeforeTheAgentSeesIt) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  float* values = AllocateFloats(session, 16);
  maypole_op* op = nullptr;
  EXPECT_EQ(maypole_all_reduce(session.get(), values + 1, 16, nullptr, &op),
            MAYPOLE_INVALID_ARGUMENT);
  EXPECT_THAT(maypole_last_error(), AllOf(HasSubstr("64 bytes"), HasSubstr("60 bytes")));
  EXPECT_EQ(maypole_all_reduce(session.get(), reinterpret_cast<char*>(values) + 1, 1, nullptr, &op),
            MAYPOLE_INVALID_ARGUMENT);
  EXPECT_THAT(maypole_last_error(), HasSubstr("not aligned"));
  EXPECT_EQ(op, nullptr);
  EXPECT_EQ(maypole_free(session.get(), values), MAYPOLE_OK);  // refused ops hold nothing
}

TEST(Op, KeepsItsMemoryFromBeingFreed) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  float* values = AllocateFloats(session, 16);
  OpPtr op = AllReduce(session, values, 16);
  EXPECT_EQ(maypole_free(session.get(), values), MAYPOLE_FAILED_PRECONDITION);
  EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_OK);
  EXPECT_EQ(maypole_free(session.get(), values), MAYPOLE_OK);
}

TEST(Op, BeyondTheSlotsIsRefusedAndFitsAgainLater) {
  std::vector<agent::Submission> held;
  FakeAgent::Hooks hooks;
  hooks.on_submission = [&held](FakeAgent&, const agent::Submission& op) { held.push_back(op); };
  FakeAgent agent(hooks);
  const SessionPtr session = Connect(agent.path());
  std::vector<OpPtr> ops;
  for (std::uint32_t i = 0; i < kSlotCount; ++i) {
    ops.push_back(AllReduce(session, nullptr, 0));
  }
  maypole_op* extra = nullptr;
  EXPECT_EQ(maypole_all_reduce(session.get(), nullptr, 0, nullptr, &extra),
            MAYPOLE_RESOURCE_EXHAUSTED);
  EXPECT_THAT(maypole_last_error(), HasSubstr("1024 slots"));
  ASSERT_EQ(agent.Await<agent::Submission>(kSlotCount).size(), kSlotCount);
  EXPECT_EQ(maypole_test(ops[0].get()), 0);
  agent.Do([&held](agent::SegmentServer& server) {
    for (const auto& op : held) {
      server.Complete({op.session, op.slot, {}, {}});
    }
  });
  for (auto& op : ops) {
    EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_OK);
  }
  ASSERT_EQ(maypole_all_reduce(session.get(), nullptr, 0, nullptr, &extra), MAYPOLE_OK);
  const OpPtr owned(extra);
  agent.Await<agent::Submission>(kSlotCount + 1);
  agent.Do([&held](agent::SegmentServer& server) {
    server.Complete({held.back().session, held.back().slot, {}, {}});
  });
}

TEST(Op, CanBeTestedAndWaitedForInPieces) {
  FakeAgent agent(Holding());
  const SessionPtr session = Connect(agent.path());
  OpPtr op = AllReduce(session, nullptr, 0);
  EXPECT_EQ(maypole_test(op.get()), 0);
  const auto start = Clock::now();
  EXPECT_EQ(maypole_wait_for(op.get(), 0.03), 0);
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(30));
  EXPECT_EQ(maypole_wait_for(op.get(), -1), 0);
  const auto ops = agent.Await<agent::Submission>(1);
  ASSERT_EQ(ops.size(), 1u);
  agent.Do([&ops](agent::SegmentServer& server) {
    server.Complete({ops[0].session, ops[0].slot, {}, {}});
  });
  EXPECT_EQ(maypole_wait_for(op.get(), 10), 1);
  EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_OK);
}

TEST(Op, EndsWithinASecondOfItsAgent) {
  FakeAgent agent(Holding());
  const SessionPtr session = Connect(agent.path());
  OpPtr op = AllReduce(session, nullptr, 0);
  agent.Await<agent::Submission>(1);
  agent.Stop();
  const auto start = Clock::now();
  EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_AGENT_UNAVAILABLE);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  EXPECT_THAT(maypole_last_error(),
              AllOf(HasSubstr("all_reduce (unnamed)"), HasSubstr(agent.path())));
  maypole_op* later = nullptr;
  EXPECT_EQ(maypole_all_reduce(session.get(), nullptr, 0, nullptr, &later),
            MAYPOLE_AGENT_UNAVAILABLE);
  maypole_agent_stats stats;
  EXPECT_EQ(maypole_get_agent_stats(session.get(), &stats), MAYPOLE_AGENT_UNAVAILABLE);
  void* memory = nullptr;
  EXPECT_EQ(maypole_alloc(session.get(), 1 << 20, &memory), MAYPOLE_AGENT_UNAVAILABLE);
}

TEST(Op, PolledByTestAloneNoticesTheEndOfItsAgent) {
  FakeAgent agent(Holding());
  const SessionPtr session = Connect(agent.path());
  OpPtr op = AllReduce(session, nullptr, 0);
  agent.Await<agent::Submission>(1);
  agent.Stop();
  const auto give_up = Clock::now() + std::chrono::seconds(2);
  while (maypole_test(op.get()) == 0 && Clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_EQ(maypole_test(op.get()), 1);
}

TEST(Op, EndsWithTheReasonOfItsSession) {
  FakeAgent agent(Holding());
  const SessionPtr session = Connect(agent.path());
  OpPtr op = AllReduce(session, nullptr, 0);
  const auto ops = agent.Await<agent::Submission>(1);
  ASSERT_EQ(ops.size(), 1u);
  std::thread failer([&] {
    agent.Do([&ops](agent::SegmentServer& server) {
      server.Fail({ops[0].session, {ErrorCode::kPeerLost, "rank 1 died", "ranks=1"}});
    });
  });
  EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_PEER_LOST);
  EXPECT_THAT(maypole_last_error(), HasSubstr("rank 1 died"));
  EXPECT_STREQ(maypole_last_error_culprits(), "ranks=1");
  maypole_op* later = nullptr;
  EXPECT_EQ(maypole_barrier(session.get(), nullptr, 0, &later), MAYPOLE_PEER_LOST);
  failer.join();
}

TEST(Session, ThatLeavesWakesItsWaitersAndKeepsItsMemory) {
  FakeAgent agent(Holding());
  const SessionPtr session = Connect(agent.path());
  float* values = AllocateFloats(session, 1 << 20);
  OpPtr op = AllReduce(session, values, 1 << 20);
  std::thread leaver([&] {
    agent.Await<agent::Submission>(1);
    maypole_leave(session.get());
    maypole_leave(session.get());
  });
  EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_FAILED_PRECONDITION);
  leaver.join();
  values[0] = 1;
  values[(1 << 20) - 1] = 1;
  void* memory = nullptr;
  EXPECT_EQ(maypole_alloc(session.get(), 64, &memory), MAYPOLE_FAILED_PRECONDITION);
  const auto gone = agent.Await<agent::ClientGone>(1);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_FALSE(gone[0].died);
}

TEST(Session, ThatLeavesDuringARequestLeavesInPeace) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  std::latch asked(1);
  std::latch left(1);
  agent.Do([&](agent::SegmentServer& server) {
    server.OnStats([&](StatsReply&) {
      asked.count_down();
      left.wait();
    });
  });
  std::thread asker([&] {
    maypole_agent_stats stats;
    EXPECT_NE(maypole_get_agent_stats(session.get(), &stats), MAYPOLE_OK);
  });
  asked.wait();
  maypole_leave(session.get());
  left.count_down();
  asker.join();
  const auto gone = agent.Await<agent::ClientGone>(1);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_FALSE(gone[0].died) << gone[0].reason;
}

TEST(Session, ThatIsClosedLeavesHandlesOfOpsSafe) {
  FakeAgent agent(Holding());
  SessionPtr session = Connect(agent.path());
  float* values = AllocateFloats(session, 16);
  OpPtr op = AllReduce(session, values, 16);
  session.reset();
  EXPECT_EQ(maypole_test(op.get()), 1);
  EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_FAILED_PRECONDITION);
}

TEST(Session, AnAgentThatRunsMayTakeLongerThanItsLease) {
  FakeAgent agent(Holding());
  SessionPtr session = Connect(agent.path());
  OpPtr op = AllReduce(session, AllocateFloats(session, 16), 16);
  EXPECT_EQ(maypole_wait_for(op.get(), 1), 0);
  session.reset();
}

TEST(Session, AnAgentThatStandsStillEndsTheWaitWithinItsLease) {
  std::latch go_on(1);
  FakeAgent::Hooks hooks;
  hooks.on_submission = [&](FakeAgent&, const agent::Submission&) { go_on.wait(); };
  FakeAgent agent(hooks);
  const SessionPtr session = Connect(agent.path());
  OpPtr op = AllReduce(session, AllocateFloats(session, 16), 16);
  EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_AGENT_UNAVAILABLE);
  EXPECT_THAT(maypole_last_error(),
              AllOf(HasSubstr(agent.path()), HasSubstr("no sign of life for 0.3 s")));
  go_on.count_down();
  void* memory = nullptr;
  EXPECT_EQ(maypole_alloc(session.get(), 16, &memory), MAYPOLE_AGENT_UNAVAILABLE);
}

TEST(Session, TellsTheAgentsCounters) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  maypole_agent_stats stats;
  ASSERT_EQ(maypole_get_agent_stats(session.get(), &stats), MAYPOLE_OK) << maypole_last_error();
  EXPECT_EQ(stats.ops, 42u);
  EXPECT_STREQ(stats.algorithm, "ring");
}

TEST(Session, ServesManyThreadsAtOnce) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&session, t] {
      std::vector<float> ordinary(100 + static_cast<std::size_t>(t));
      float* shared = AllocateFloats(session, 64);
      for (int i = 0; i < 200; ++i) {
        OpPtr a = AllReduce(session, ordinary.data(), ordinary.size());
        OpPtr b = AllReduce(session, shared, 64);
        ASSERT_EQ(maypole_wait(a.get()), MAYPOLE_OK);
        ASSERT_EQ(maypole_wait(b.get()), MAYPOLE_OK);
      }
      EXPECT_THAT(ordinary, Each(200.0f));
      EXPECT_EQ(shared[63], 200.0f);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

TEST(Session, NullArgumentsAreRefused) {
  EXPECT_EQ(maypole_wait(nullptr), MAYPOLE_INVALID_ARGUMENT);
  EXPECT_EQ(maypole_alloc(nullptr, 1, nullptr), MAYPOLE_INVALID_ARGUMENT);
  EXPECT_EQ(maypole_all_reduce(nullptr, nullptr, 0, nullptr, nullptr), MAYPOLE_INVALID_ARGUMENT);
  EXPECT_EQ(maypole_get_agent_stats(nullptr, nullptr), MAYPOLE_INVALID_ARGUMENT);
  maypole_op_free(nullptr);
}

}  // namespace
}  // namespace maypole::test
