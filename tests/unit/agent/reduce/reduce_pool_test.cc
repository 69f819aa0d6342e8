#include "agent/reduce/reduce_pool.h"

#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace maypole::agent {
namespace {

// Pieces that add one to every element of their own buffer, so that a piece done twice or never
// shows.
class Counters {
 public:
  Counters(std::size_t pieces, std::size_t elements)
      : ones_(elements, 1), values_(pieces, std::vector<std::int32_t>(elements, 0)) {}

  ReduceWork Piece(std::size_t i) {
    ReduceWork work;
    work.accumulator = DType::kI32;
    work.elements = ones_.size();
    work.inputs = {OperandOf(values_[i]), OperandOf(ones_)};
    work.outputs = {OperandOf(values_[i])};
    return work;
  }

  bool AllAre(std::int32_t count) const {
    return std::all_of(values_.begin(), values_.end(), [&](const auto& values) {
      return std::count(values.begin(), values.end(), count) == std::ssize(values);
    });
  }

 private:
  static Operand OperandOf(std::vector<std::int32_t>& values) {
    return {{MemoryKind::kHost, reinterpret_cast<std::byte*>(values.data()), values.size() * 4},
            DType::kI32};
  }

  std::vector<std::int32_t> ones_;
  std::vector<std::vector<std::int32_t>> values_;
};

// A helper that has caught up with the loop is not woken for a last small piece: that is the
// loop's.
enum class LoopWorks { kYes, kOnceAHelperHas };

// What the agent's loop does: works while there is something queued, else sleeps on the event
// descriptor. False if it would have slept for ever.
bool RunUntilDone(ReducePool& pool, LoopWorks loop_works, std::vector<std::uint64_t>& done) {
  while (pool.Pending() > 0) {
    if ((loop_works == LoopWorks::kYes || !done.empty()) && pool.RunOne()) {
      pool.TakeDone(done);
      continue;
    }
    if (pool.Arm()) {
      pollfd readable{pool.EventFd(), POLLIN, 0};
      if (::poll(&readable, 1, 10'000) != 1) {
        return false;
      }
    }
    pool.TakeDone(done);
  }
  return true;
}

class ReducePoolThreads : public ::testing::TestWithParam<int> {};

TEST_P(ReducePoolThreads, EveryPieceIsDoneExactlyOnce) {
  constexpr std::size_t kPieces = 64;
  Counters counters(kPieces, 20000);
  ReducePool pool(GetParam());
  for (int round = 1; round <= 20; ++round) {
    std::vector<std::uint64_t> done;
    for (std::size_t i = 0; i < kPieces; ++i) {
      pool.Submit(i, counters.Piece(i));
    }
    EXPECT_EQ(pool.Pending(), kPieces);
    ASSERT_TRUE(RunUntilDone(pool, LoopWorks::kYes, done));
    std::sort(done.begin(), done.end());
    std::vector<std::uint64_t> expected(kPieces);
    std::iota(expected.begin(), expected.end(), 0);
    ASSERT_EQ(done, expected);
    ASSERT_TRUE(counters.AllAre(round));
  }
  EXPECT_GT(pool.BusyNanoseconds(), 0U);
}

TEST_P(ReducePoolThreads, NoWakeUpIsLostWhileTheLoopSleepsAndWakes) {
  Counters counters(3, 40000);
  ReducePool pool(GetParam());
  for (int round = 1; round <= 500; ++round) {
    std::vector<std::uint64_t> done;
    for (std::size_t i = 0; i < 3; ++i) {
      pool.Submit(i, counters.Piece(i));
    }
    // The loop takes one piece, or none, and goes to sleep while helpers finish at any moment.
    ASSERT_TRUE(RunUntilDone(pool, LoopWorks::kYes, done)) << "round " << round;
    ASSERT_EQ(done.size(), 3U);
  }
  EXPECT_TRUE(counters.AllAre(500));
}

TEST_P(ReducePoolThreads, DropsWhatIsQueuedWhenItEnds) {
  for (int round = 0; round < 50; ++round) {
    Counters counters(16, 40000);
    ReducePool pool(GetParam());
    for (std::size_t i = 0; i < 16; ++i) {
      pool.Submit(i, counters.Piece(i));
    }
  }  // must neither hang nor touch counters' memory afterwards
}

INSTANTIATE_TEST_SUITE_P(All, ReducePoolThreads, ::testing::Values(1, 2, 4));

TEST(ReducePool, HelpersTakeABacklogByThemselves) {
  constexpr std::size_t kPieces = 16;
  Counters counters(kPieces, 100000);
  ReducePool pool(2);
  for (std::size_t i = 0; i < kPieces; ++i) {
    pool.Submit(i, counters.Piece(i));
  }
  std::vector<std::uint64_t> done;
  ASSERT_TRUE(RunUntilDone(pool, LoopWorks::kOnceAHelperHas, done));
  EXPECT_EQ(done.size(), kPieces);
  EXPECT_TRUE(counters.AllAre(1));
}

TEST(ReducePool, ASinglePieceIsLeftToTheLoop) {
  Counters counters(1, 100000);
  ReducePool pool(4);
  pool.Submit(7, counters.Piece(0));
  EXPECT_FALSE(pool.Arm());  // queued: the loop must not sleep
  EXPECT_TRUE(pool.RunOne());
  EXPECT_FALSE(pool.RunOne());
  EXPECT_FALSE(pool.Arm());  // done and not taken
  std::vector<std::uint64_t> done = {3};
  pool.TakeDone(done);
  EXPECT_EQ(done, (std::vector<std::uint64_t>{3, 7}));
  EXPECT_TRUE(pool.Arm());
  EXPECT_EQ(pool.Pending(), 0U);
}

TEST(ReducePool, EventIsClearedByTakingWhatIsDone) {
  Counters counters(16, 100000);
  ReducePool pool(2);
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < 16; ++i) {
      pool.Submit(i, counters.Piece(i));
    }
    std::vector<std::uint64_t> done;
    ASSERT_TRUE(RunUntilDone(pool, LoopWorks::kOnceAHelperHas, done));
    pollfd readable{pool.EventFd(), POLLIN, 0};
    ASSERT_EQ(::poll(&readable, 1, 0), 0);
  }
}

}  // namespace
}  // namespace maypole::agent
