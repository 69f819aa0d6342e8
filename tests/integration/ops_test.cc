// Many ops at once, in any order, and very large ones. The numbers of every dtype and reduction:
// tests/python/ranks/arithmetic.py.
#include "tests/support/ops.h"

#include <unistd.h>

#include <numeric>

#include <gmock/gmock.h>

#include "tests/support/integration_test.h"
#include "tests/support/test_cluster.h"

namespace maypole::test {
namespace {

using ::testing::Each;

class OpsTest : public IntegrationTest {};

TEST_F(OpsTest, EightNamesInFlightMeetInWhateverOrderTheRanksSubmitThem) {
  constexpr std::size_t kNames = 8;
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  for (int step = 0; step < 20; ++step) {
    std::vector<std::vector<std::span<float>>> tensors;
    for (std::size_t name = 0; name < kNames; ++name) {
      tensors.push_back(Tensors(sessions, 1000 * name + 1));
    }
    std::vector<Op> ops;
    for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
      for (std::size_t i = 0; i < kNames; ++i) {
        const std::size_t name = (i * (2 * rank + 1) + rank) % kNames;  // odd factors permute
        ops.push_back(sessions[rank].AllReduce(
            tensors[name][rank],
            {.name = "layer " + std::to_string(name), .priority = static_cast<int>(i % 3)}));
      }
    }
    for (Op& op : ops) {
      op.Wait();
    }
    for (const auto& of_name : tensors) {
      for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
        ASSERT_THAT(of_name[rank], Each(SumOfRanks(4)));
        sessions[rank].Free(of_name[rank]);
      }
    }
  }
}

TEST_F(OpsTest, AThousandOpsInFlightAllComplete) {
  constexpr std::size_t kOps = 1000;
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  const std::vector<std::span<float>> tensors = Tensors(sessions, 16 * kOps);
  std::vector<std::vector<Op>> ops(sessions.size());
  for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
    for (std::size_t i = 0; i < kOps; ++i) {
      const std::size_t name = rank == 0 ? i : kOps - 1 - i;
      ops[rank].push_back(sessions[rank].AllReduce(tensors[rank].subspan(16 * name, 16),
                                                   {.name = "op " + std::to_string(name)}));
    }
  }
  for (std::vector<Op>& of_rank : ops) {
    for (Op& op : of_rank) {
      op.Wait();
    }
  }
  EXPECT_THAT(tensors[0], Each(SumOfRanks(2)));
  EXPECT_THAT(tensors[1], Each(SumOfRanks(2)));
}

TEST_F(OpsTest, AnUrgentOpOvertakesTheBytesOfOthers) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  const auto urgent = Tensors(sessions, 1000);
  std::vector<std::vector<std::span<float>>> bulk;
  std::vector<Op> bulk_ops;
  for (int i = 0; i < 8; ++i) {
    bulk.push_back(Tensors(sessions, 4 << 20));
  }
  for (const auto& tensors : bulk) {  // which take longer to fill than to reduce
    for (Op& op : SubmitAll(sessions, tensors, {.overwrite = true})) {
      bulk_ops.push_back(std::move(op));
    }
  }
  EXPECT_THAT(AllReduceAll(sessions, urgent, {.name = "urgent", .priority = 1}), Each("ok"));
  EXPECT_FALSE(bulk_ops.back().Test()) << "128 MiB were quicker than 4 kB";
  for (Op& op : bulk_ops) {
    op.Wait();
  }
  EXPECT_THAT(bulk.back()[1], Each(SumOfRanks(2)));
}

TEST_F(OpsTest, EveryReductionIsExactAcrossNodes) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  const std::vector<std::pair<maypole_reduction, float>> expected = {{MAYPOLE_SUM, 10.0F},
                                                                     {MAYPOLE_MEAN, 2.5F},
                                                                     {MAYPOLE_MIN, 1.0F},
                                                                     {MAYPOLE_MAX, 4.0F},
                                                                     {MAYPOLE_PRODUCT, 24.0F}};
  for (const auto& [reduction, value] : expected) {
    for (const maypole_algorithm algorithm : {MAYPOLE_RING,
                                              MAYPOLE_DIRECT,
                                              MAYPOLE_NAIVE,
                                              MAYPOLE_TREE,
                                              MAYPOLE_DOUBLE_TREE,
                                              MAYPOLE_HALVING_DOUBLING}) {
      const auto tensors = Tensors(sessions, 10'001);
      ASSERT_THAT(AllReduceAll(sessions, tensors, {.reduction = reduction, .algorithm = algorithm}),
                  Each("ok"));
      for (const auto& tensor : tensors) {
        ASSERT_THAT(tensor, Each(value)) << reduction << " " << algorithm;
      }
    }
  }
}

// More than 2^31 elements, most of them in pages that nobody has written.
void ReduceHugeTensor(const TestCluster& cluster, std::uint32_t ranks_per_node) {
  constexpr std::uint64_t kElements = (std::uint64_t{1} << 31) + 13;
  constexpr std::uint64_t kPlaces[] = {
      0, 1, kElements / 2, (std::uint64_t{1} << 31) - 1, std::uint64_t{1} << 31, kElements - 1};
  std::vector<Session> sessions = cluster.ConnectAll(ranks_per_node);
  std::vector<std::span<std::int8_t>> tensors;
  std::vector<Op> ops;
  for (Session& session : sessions) {
    tensors.push_back(session.Allocate<std::int8_t>(kElements));
    for (const std::uint64_t place : kPlaces) {
      tensors.back()[place] = static_cast<std::int8_t>(session.rank() + 5);
    }
    ops.push_back(session.AllReduce(tensors.back(), {.overwrite = true}));
  }
  for (Op& op : ops) {
    op.Wait();
  }
  for (const auto& tensor : tensors) {
    for (const std::uint64_t place : kPlaces) {
      EXPECT_EQ(tensor[place], 11) << place;
    }
    EXPECT_EQ(tensor[2], 0);
    EXPECT_EQ(tensor[kElements / 2 + 1], 0);
    EXPECT_EQ(tensor[kElements - 2], 0);
  }
}

class HugeOpsTest : public OpsTest {
 protected:
  void SetUp() override {
    const auto free = sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
    if (free < std::int64_t{8} << 30) {
      GTEST_SKIP() << "needs 8 GiB of free memory, there are " << (free >> 20) << " MiB";
    }
  }
};

TEST_F(HugeOpsTest, MoreThanTwoToThe31ElementsOnANode) {
  ReduceHugeTensor(TestCluster({.nodes = 1}), 2);
}

TEST_F(HugeOpsTest, MoreThanTwoToThe31ElementsAcrossNodes) {
  ReduceHugeTensor(TestCluster({.nodes = 2}), 1);
}

}  // namespace
}  // namespace maypole::test
