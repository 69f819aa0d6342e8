#include "collective/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/parts.h"

namespace maypole::collective {
namespace {

using testing::HasSubstr;

Choice Chosen(std::uint64_t bytes, DType dtype = DType::kF32, Algorithm hint = Algorithm::kAuto) {
  return Select(Collective::kAllReduce, bytes, 4, dtype, hint);
}

TEST(Selection, FollowsAHint) {
  const Choice choice = Chosen(4, DType::kBF16, Algorithm::kNaive);
  EXPECT_EQ(choice.algorithm, Algorithm::kNaive);
  EXPECT_THAT(choice.reason, HasSubstr("asked for"));
}

TEST(Selection, SumsHalfTypesDirectlyAtAnySize) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Choice choice = Chosen(std::uint64_t{1} << 33, dtype);
    EXPECT_EQ(choice.algorithm, Algorithm::kDirect);
    EXPECT_THAT(choice.reason, HasSubstr("half types"));
  }
}

TEST(Selection, TakesTheRingAboveTheLimitOnly) {
  EXPECT_EQ(Chosen(kDirectMaxBytes).algorithm, Algorithm::kDirect);
  EXPECT_THAT(Chosen(kDirectMaxBytes).reason, HasSubstr("256 KiB"));
  EXPECT_EQ(Chosen(kDirectMaxBytes + 1).algorithm, Algorithm::kRing);
}

TEST(Selection, SendsSmallTensorsOfARootAlongATreeAndLargeOnesDownAChain) {
  for (const auto collective : {Collective::kBroadcast, Collective::kReduce}) {
    const auto choose = [&](std::uint64_t bytes) {
      return Select(collective, bytes, 8, DType::kBF16, Algorithm::kAuto);
    };
    EXPECT_EQ(choose(kDirectMaxBytes).algorithm, Algorithm::kTree);
    EXPECT_THAT(choose(kDirectMaxBytes).reason, HasSubstr("256 KiB"));
    EXPECT_EQ(choose(kDirectMaxBytes + 1).algorithm, Algorithm::kRing);
  }
}

TEST(Selection, GathersHalfTypesByTheRingSinceNothingIsSummed) {
  const auto algorithm = [](Collective collective) {
    return Select(collective, 1 << 30, 4, DType::kF16, Algorithm::kAuto).algorithm;
  };
  EXPECT_EQ(algorithm(Collective::kAllGather), Algorithm::kRing);
  EXPECT_EQ(algorithm(Collective::kReduceScatter), Algorithm::kDirect);
}

TEST(Selection, NeverLeavesTheChoiceOpenAndTakesWhatThereIs) {
  for (std::size_t number = 0; number < kCollectiveCount; ++number) {
    const auto collective = static_cast<Collective>(number);
    for (const std::uint32_t members : {1U, 2U, 64U}) {
      for (const std::uint64_t bytes : {0U, 1U, 1U << 30}) {
        const Choice choice = Select(collective, bytes, members, DType::kI64, Algorithm::kAuto);
        EXPECT_NE(choice.algorithm, Algorithm::kAuto);
        EXPECT_TRUE(IsAvailable(collective, choice.algorithm));
        EXPECT_FALSE(choice.reason.empty());
      }
    }
  }
}

// Direct below 1000 bytes by a rule, tree up to 2000 by the model, nothing beyond.
TuningTable Example() {
  return {.version = 1,
          .rows = {{.bytes_end = 1000,
                    .algorithm = Algorithm::kNaive,
                    .is_rule = true,
                    .reason = "the operator"},
                   {.bytes_begin = 1000,
                    .bytes_end = 2000,
                    .algorithm = Algorithm::kTree,
                    .slice_bytes = 64,
                    .reason = "the model"}}};
}

Choice ChosenBy(const TuningTable& table,
                std::uint64_t bytes,
                DType dtype = DType::kF32,
                Algorithm hint = Algorithm::kAuto) {
  return Select(Collective::kAllReduce, bytes, 4, dtype, hint, table);
}

TEST(Selection, FollowsTheTableAndFallsToItsOwnRuleInGaps) {
  const TuningTable table = Example();
  EXPECT_EQ(ChosenBy(table, 999).algorithm, Algorithm::kNaive);
  EXPECT_EQ(ChosenBy(table, 1000).algorithm, Algorithm::kTree);
  EXPECT_EQ(ChosenBy(table, 1000).slice_bytes, 64u);
  EXPECT_EQ(ChosenBy(table, 1000).row, &table.rows[1]);
  EXPECT_EQ(ChosenBy(table, 2000).algorithm, Algorithm::kDirect);
  EXPECT_EQ(ChosenBy(table, 2000).row, nullptr);
}

TEST(Selection, AHintOverridesARuleAndARuleTheHalfTypes) {
  const TuningTable table = Example();
  EXPECT_EQ(ChosenBy(table, 10, DType::kF32, Algorithm::kRing).algorithm, Algorithm::kRing);
  EXPECT_EQ(ChosenBy(table, 10, DType::kF16).algorithm, Algorithm::kNaive);
  EXPECT_EQ(ChosenBy(table, 1500, DType::kF16).algorithm, Algorithm::kDirect);
}

TEST(Selection, AHintThatTheTableChoseTooTakesItsSlices) {
  const TuningTable table = Example();
  EXPECT_EQ(ChosenBy(table, 1500, DType::kF32, Algorithm::kTree).slice_bytes, 64u);
  EXPECT_EQ(ChosenBy(table, 1500, DType::kF32, Algorithm::kRing).slice_bytes, 0u);
}

}  // namespace
}  // namespace maypole::collective
