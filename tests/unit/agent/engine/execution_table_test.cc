#include "agent/engine/execution_table.h"

#include "gtest/gtest.h"

namespace maypole::agent {
namespace {

constexpr JobToken kJob{7};

OpKey Op(std::uint64_t occurrence) {
  return {.hash = 1, .occurrence = occurrence};
}

TEST(ExecutionTable, AllTokensOfAnExecutionLeadToItsOp) {
  ExecutionTable table;
  const std::uint64_t first = table.Add(kJob, Op(1));
  const std::uint64_t last = first + (std::uint64_t{1} << Execution::kTokenBits) - 1;
  table.Add(kJob, Op(2));
  for (const std::uint64_t token : {first, last}) {
    ASSERT_NE(table.Find(token), nullptr);
    EXPECT_EQ(table.Find(token)->op, Op(1));
    EXPECT_EQ(table.Find(token)->job, kJob);
  }
}

TEST(ExecutionTable, AnExecutionThatHasEndedIsUnknown) {
  ExecutionTable table;
  const std::uint64_t first = table.Add(kJob, Op(1));
  table.Remove(first);
  EXPECT_EQ(table.Find(first), nullptr);
}

TEST(ExecutionTable, SerialsGoRoundAndPassOverThoseThatLive) {
  ExecutionTable table(/*serials=*/4);
  const std::uint64_t lives = table.Add(kJob, Op(100));
  for (std::uint64_t i = 0; i < 10; ++i) {
    const std::uint64_t first = table.Add(kJob, Op(i));
    EXPECT_GT(first, 0);
    EXPECT_NE(first, lives);
    EXPECT_LT(first, std::uint64_t{4} << Execution::kTokenBits);
    ASSERT_NE(table.Find(first), nullptr);
    EXPECT_EQ(table.Find(first)->op, Op(i));
    table.Remove(first);
  }
  EXPECT_EQ(table.Find(lives)->op, Op(100));
}

TEST(ExecutionTable, AllTokensStayBelowTheShells) {
  EXPECT_EQ(ExecutionTable::kSerials << Execution::kTokenBits, kShellTokens);
}

TEST(ExecutionTable, TokensOfTheShellAreNobodys) {
  ExecutionTable table;
  table.Add(kJob, Op(1));
  EXPECT_EQ(table.Find(kShellTokens), nullptr);
  EXPECT_EQ(table.Find(kShellTokens + (std::uint64_t{1} << Execution::kTokenBits)), nullptr);
}

}  // namespace
}  // namespace maypole::agent
