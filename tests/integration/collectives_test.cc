// Every collective between real processes: who gets what, what it costs on the wire, and what is
// refused. The numbers of every dtype: tests/python/ranks/collectives.py.
#include <algorithm>
#include <functional>
#include <numeric>

#include <gmock/gmock.h>

#include "tests/support/integration_test.h"
#include "tests/support/ops.h"
#include "tests/support/test_cluster.h"

namespace maypole::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CollectivesTest : public IntegrationTest {
 protected:
  // Submits on all ranks, by rank; the texts of the errors, "ok" where there is none.
  static std::vector<std::string> OnAll(std::vector<Session>& sessions,
                                        const std::function<Op(Session&, std::size_t)>& submit) {
    std::vector<Op> ops;
    for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
      ops.push_back(submit(sessions[rank], rank));
    }
    std::vector<std::string> texts;
    for (Op& op : ops) {
      texts.push_back(TextOfError([&] { op.Wait(); }));
    }
    return texts;
  }

  // Bytes that each agent has sent and received in `ops`; one rank per node.
  struct Wire {
    double sent;
    double received;
  };

  static std::vector<Wire> WireOf(std::vector<Session>& sessions,
                                  const std::function<void()>& ops) {
    std::vector<maypole_agent_stats> before;
    for (Session& session : sessions) {
      before.push_back(session.AgentStats());
    }
    ops();
    std::vector<Wire> wire;
    for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
      const maypole_agent_stats after = sessions[rank].AgentStats();
      wire.push_back(
          {static_cast<double>(after.wire_sent_bytes - before[rank].wire_sent_bytes),
           static_cast<double>(after.wire_received_bytes - before[rank].wire_received_bytes)});
    }
    return wire;
  }
};

constexpr std::size_t kCount = 1 << 21;  // of floats: 8 MiB
constexpr double kBytes = 4.0 * kCount;
constexpr double kTolerance = 0.01 * kBytes;  // headers and announces are below it too

TEST_F(CollectivesTest, AReduceScatterGivesEachRankItsBlockAndLeavesTheRest) {
  TestCluster cluster({.nodes = 3});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  const std::vector<std::uint64_t> counts = {5, 0, 100'000, 1, 70'000, 3};
  const std::size_t count = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  for (const maypole_algorithm algorithm :
       {MAYPOLE_AUTO, MAYPOLE_RING, MAYPOLE_DIRECT, MAYPOLE_TREE}) {
    const auto tensors = Tensors(sessions, count);
    EXPECT_THAT(OnAll(sessions,
                      [&](Session& session, std::size_t rank) {
                        return session.ReduceScatter(
                            tensors[rank], {.name = "g", .algorithm = algorithm}, counts);
                      }),
                Each("ok"));
    std::size_t begin = 0;
    for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
      const auto own = static_cast<float>(rank + 1);
      EXPECT_THAT(tensors[rank].subspan(begin, counts[rank]), Each(SumOfRanks(6)));
      EXPECT_THAT(tensors[rank].first(begin), Each(own));
      begin += counts[rank];
      EXPECT_THAT(tensors[rank].subspan(begin), Each(own));
    }
  }
}

TEST_F(CollectivesTest, AnAllGatherBringsTheBlocksOfAllRanks) {
  TestCluster cluster({.nodes = 3});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  constexpr std::size_t kBlock = 50'001;
  for (const bool shared : {false, true}) {
    const auto tensors = Tensors(sessions, 6 * kBlock);
    std::vector<Op> ops;
    for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
      ops.push_back(sessions[rank].AllGather(tensors[rank], {.shared_result = shared}));
    }
    for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
      ops[rank].Wait();
      const float* got = shared ? ops[rank].Result<float>() : tensors[rank].data();
      for (std::size_t block = 0; block < sessions.size(); ++block) {
        EXPECT_THAT(std::span(got + block * kBlock, kBlock), Each(static_cast<float>(block + 1)));
      }
    }
  }
}

TEST_F(CollectivesTest, ABroadcastAndAReduceHaveAnyRoot) {
  TestCluster cluster({.nodes = 3});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  for (const std::size_t count : {1U, 100'000U}) {
    for (std::size_t root = 0; root < sessions.size(); ++root) {
      const auto tensors = Tensors(sessions, count);
      EXPECT_THAT(OnAll(sessions,
                        [&](Session& session, std::size_t rank) {
                          return session.Reduce(tensors[rank], static_cast<std::int64_t>(root));
                        }),
                  Each("ok"));
      for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
        EXPECT_THAT(tensors[rank],
                    Each(rank == root ? SumOfRanks(6) : static_cast<float>(rank + 1)));
      }
      EXPECT_THAT(OnAll(sessions,
                        [&](Session& session, std::size_t rank) {
                          return session.Broadcast(tensors[rank], static_cast<std::int64_t>(root));
                        }),
                  Each("ok"));
      for (const auto& tensor : tensors) {
        EXPECT_THAT(tensor, Each(SumOfRanks(6)));
      }
    }
  }
}

TEST_F(CollectivesTest, AnAllToAllSwapsRowsAndColumnsInAnyMemory) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  constexpr std::size_t kBlock = 33'333;
  std::vector<std::span<float>> inputs = Tensors(sessions, 4 * kBlock);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (std::size_t i = 0; i < inputs[rank].size(); ++i) {
      inputs[rank][i] = static_cast<float>(10 * rank + i / kBlock);
    }
  }
  std::vector<std::vector<float>> outputs(4, std::vector<float>(4 * kBlock));
  EXPECT_THAT(OnAll(sessions,
                    [&](Session& session, std::size_t rank) {
                      return session.AllToAll(inputs[rank], std::span<float>(outputs[rank]));
                    }),
              Each("ok"));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (std::size_t from = 0; from < 4; ++from) {
      EXPECT_THAT(std::span(outputs[rank]).subspan(from * kBlock, kBlock),
                  Each(static_cast<float>(10 * from + rank)));
    }
  }
}

TEST_F(CollectivesTest, ASendMeetsTheReceiveOfItsPairAndNobodyElse) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  const auto tensors = Tensors(sessions, 100'000);
  // 0 to 1 on one node, 0 to 3 and 3 to 0 across, all of one name; rank 2 has no part in it.
  std::vector<float> to_1(100'000);
  std::vector<float> to_3(100'000);
  std::vector<float> to_0(100'000);
  std::vector<Op> ops;
  ops.push_back(sessions[3].Recv(std::span(to_3), 0, {.name = "x"}));
  ops.push_back(sessions[0].Send(tensors[0], 1, {.name = "x"}));
  ops.push_back(sessions[0].Send(tensors[0], 3, {.name = "x"}));
  ops.push_back(sessions[0].Recv(std::span(to_0), 3, {.name = "x"}));
  ops.push_back(sessions[1].Recv(std::span(to_1), 0, {.name = "x"}));
  ops.push_back(sessions[3].Send(tensors[3], 0, {.name = "x"}));
  for (Op& op : ops) {
    op.Wait();
  }
  EXPECT_THAT(to_1, Each(1.0F));
  EXPECT_THAT(to_3, Each(1.0F));
  EXPECT_THAT(to_0, Each(4.0F));
}

TEST_F(CollectivesTest, AReceiveThatNobodySendsToTimesOutAndNamesTheSender) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  const auto tensors = Tensors(sessions, 10);
  Op op = sessions[0].Recv(tensors[0], 3, {.name = "never", .timeout = 0.3});
  EXPECT_THAT(TextOfError([&] { op.Wait(); }),
              AllOf(StartsWith("timeout: "),
                    HasSubstr("send_receive \"never\" #0 from rank 3 to rank 0"),
                    HasSubstr("waiting_ranks=3;")));
  // The sender that comes too late is told, unless its bytes have left before the news came; the
  // next of the name meets.
  EXPECT_THAT(TextOfError([&] { sessions[3].Send(tensors[3], 0, {.name = "never"}).Wait(); }),
              AnyOf(StartsWith("timeout: "), "ok"));
  Op again = sessions[0].Recv(tensors[0], 3, {.name = "never"});
  sessions[3].Send(tensors[3], 0, {.name = "never"}).Wait();
  again.Wait();
  EXPECT_THAT(tensors[0], Each(4.0F));
}

TEST_F(CollectivesTest, WhatRanksDisagreeOnIsRefusedOnAllWithBothGroups) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  const auto tensors = Tensors(sessions, 8);
  EXPECT_THAT(
      OnAll(sessions,
            [&](Session& session, std::size_t rank) {
              return session.Broadcast(tensors[rank], rank == 2 ? 1 : 0, {.name = "b"});
            }),
      Each(AllOf(StartsWith("mismatch: "), HasSubstr("root: ranks 0, 1, 3 have 0, rank 2 has 1"))));
  EXPECT_THAT(OnAll(sessions,
                    [&](Session& session, std::size_t rank) {
                      return rank == 1 ? session.AllGather(tensors[rank], {.name = "c"})
                                       : session.AllReduce(tensors[rank], {.name = "c"});
                    }),
              Each(AllOf(StartsWith("mismatch: "),
                         HasSubstr("collective: ranks 0, 2, 3 have all_reduce, rank 1 has "
                                   "all_gather"))));
  const std::vector<std::uint64_t> counts = {1, 1, 1, 5};
  EXPECT_THAT(OnAll(sessions,
                    [&](Session& session, std::size_t rank) {
                      return rank == 0 ? session.ReduceScatter(tensors[rank], {.name = "d"}, counts)
                                       : session.ReduceScatter(tensors[rank], {.name = "d"});
                    }),
              Each(AllOf(StartsWith("mismatch: "),
                         HasSubstr("rank 0 has 1 for rank 0, ranks 1-3 have 2 for rank 0"))));
  for (std::size_t rank = 0; rank < tensors.size(); ++rank) {
    EXPECT_THAT(tensors[rank], Each(static_cast<float>(rank + 1)));
  }
}

TEST_F(CollectivesTest, WhatCannotBeIsRefusedAtOnce) {
  TestCluster cluster({.nodes = 1});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  const auto tensor = Tensors(sessions, 7)[0];
  const auto refusal = [&](const std::function<Op()>& submit) {
    return TextOfError([&] { submit().Wait(); });
  };
  Session& session = sessions[0];
  EXPECT_THAT(refusal([&] { return session.Broadcast(tensor, 2); }),
              AllOf(StartsWith("invalid argument: "), HasSubstr("ranks are 0 to 1")));
  EXPECT_THAT(refusal([&] { return session.AllGather(tensor); }),
              AllOf(HasSubstr("count 7"), HasSubstr("world size 2"), HasSubstr("give counts")));
  EXPECT_THAT(refusal([&] {
                return session.AllGather(tensor, {}, std::vector<std::uint64_t>{3, 5});
              }),
              HasSubstr("add up to more, not to count 7"));
  EXPECT_THAT(refusal([&] { return session.AllGather(tensor, {}, std::vector<std::uint64_t>{7}); }),
              HasSubstr("1 counts"));
  EXPECT_THAT(refusal([&] { return session.Send(tensor, 0); }), HasSubstr("itself"));
  EXPECT_THAT(refusal([&] { return session.Reduce(tensor, 0, {.shared_result = true}); }),
              HasSubstr("not for reduce"));
  EXPECT_THAT(refusal([&] {
                return session.Broadcast(tensor, 0, {.algorithm = MAYPOLE_HALVING_DOUBLING});
              }),
              HasSubstr("does not exist for broadcast"));
}

TEST_F(CollectivesTest, AnAllReduceCarriesWhatItsAlgorithmSays) {
  TestCluster cluster({.nodes = 4});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  const auto tensors = Tensors(sessions, kCount);
  // In tensors, by agent from the least; each receives as much as it sends (docs/algorithms.md).
  const std::vector<std::pair<maypole_algorithm, std::vector<double>>> cases = {
      {MAYPOLE_RING, {1.5, 1.5, 1.5, 1.5}},
      {MAYPOLE_DIRECT, {1.5, 1.5, 1.5, 1.5}},
      {MAYPOLE_HALVING_DOUBLING, {1.5, 1.5, 1.5, 1.5}},
      {MAYPOLE_NAIVE, {3, 3, 3, 3}},
      {MAYPOLE_TREE, {1, 1, 1, 3}},
      {MAYPOLE_DOUBLE_TREE, {1, 1, 2, 2}}};
  for (const auto& [algorithm, expected] : cases) {
    std::vector<Wire> wire = WireOf(sessions, [&, algorithm = algorithm] {
      EXPECT_THAT(AllReduceAll(sessions, tensors, {.algorithm = algorithm}), Each("ok"));
    });
    std::sort(
        wire.begin(), wire.end(), [](const Wire& a, const Wire& b) { return a.sent < b.sent; });
    for (std::size_t rank = 0; rank < 4; ++rank) {
      EXPECT_NEAR(wire[rank].sent, expected[rank] * kBytes, kTolerance) << algorithm;
      EXPECT_NEAR(wire[rank].received, expected[rank] * kBytes, kTolerance) << algorithm;
    }
  }
}

TEST_F(CollectivesTest, ReduceScatterAndAllGatherCarryTheirShareOnce) {
  TestCluster cluster({.nodes = 4});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  const auto tensors = Tensors(sessions, kCount);
  for (const maypole_algorithm algorithm : {MAYPOLE_RING, MAYPOLE_DIRECT}) {
    const auto scattered = WireOf(sessions, [&] {
      OnAll(sessions, [&](Session& session, std::size_t rank) {
        return session.ReduceScatter(tensors[rank], {.algorithm = algorithm});
      });
    });
    const auto gathered = WireOf(sessions, [&] {
      OnAll(sessions, [&](Session& session, std::size_t rank) {
        return session.AllGather(tensors[rank], {.algorithm = algorithm});
      });
    });
    for (std::size_t rank = 0; rank < 4; ++rank) {
      for (const Wire wire : {scattered[rank], gathered[rank]}) {
        EXPECT_NEAR(wire.sent, kBytes * 3 / 4, kTolerance);
        EXPECT_NEAR(wire.received, kBytes * 3 / 4, kTolerance);
      }
    }
  }
}

TEST_F(CollectivesTest, ABroadcastBringsEveryByteToEachAgentOnceAndAReduceTakesItOnce) {
  TestCluster cluster({.nodes = 4});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  const auto tensors = Tensors(sessions, kCount);
  for (const maypole_algorithm algorithm : {MAYPOLE_RING, MAYPOLE_TREE, MAYPOLE_DIRECT}) {
    const auto broadcast = WireOf(sessions, [&] {
      OnAll(sessions, [&](Session& session, std::size_t rank) {
        return session.Broadcast(tensors[rank], 2, {.algorithm = algorithm});
      });
    });
    const auto reduced = WireOf(sessions, [&] {
      OnAll(sessions, [&](Session& session, std::size_t rank) {
        return session.Reduce(tensors[rank], 2, {.algorithm = algorithm});
      });
    });
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const double once = rank == 2 ? 0 : kBytes;
      EXPECT_NEAR(broadcast[rank].received, once, kTolerance);
      EXPECT_NEAR(reduced[rank].sent, once, kTolerance);
    }
  }
}

TEST_F(CollectivesTest, ASendTouchesNoOtherAgent) {
  TestCluster cluster({.nodes = 3});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  const auto tensors = Tensors(sessions, kCount);
  const auto wire = WireOf(sessions, [&] {
    Op received = sessions[2].Recv(tensors[2], 0);
    sessions[0].Send(tensors[0], 2).Wait();
    received.Wait();
  });
  EXPECT_NEAR(wire[0].sent, kBytes, kTolerance);
  EXPECT_NEAR(wire[2].received, kBytes, kTolerance);
  EXPECT_LT(wire[1].sent + wire[1].received, 4096);  // heartbeats
  EXPECT_THAT(tensors[2], Each(1.0F));
}

}  // namespace
}  // namespace maypole::test
