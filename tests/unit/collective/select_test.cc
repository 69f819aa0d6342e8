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
    EXPECT_THAT(choice.reason, HasSubstr(std::string(Name(dtype))));
  }
}

TEST(Selection, TakesTheRingAboveTheLimitOnly) {
  EXPECT_EQ(Chosen(kDirectMaxBytes).algorithm, Algorithm::kDirect);
  EXPECT_THAT(Chosen(kDirectMaxBytes).reason, HasSubstr("262144 bytes"));
  EXPECT_EQ(Chosen(kDirectMaxBytes + 1).algorithm, Algorithm::kRing);
  EXPECT_THAT(Chosen(kDirectMaxBytes + 1).reason, HasSubstr("262145 bytes"));
}

TEST(Selection, SendsSmallTensorsOfARootAlongATreeAndLargeOnesDownAChain) {
  for (const auto collective : {Collective::kBroadcast, Collective::kReduce}) {
    const auto choose = [&](std::uint64_t bytes) {
      return Select(collective, bytes, 8, DType::kBF16, Algorithm::kAuto);
    };
    EXPECT_EQ(choose(kDirectMaxBytes).algorithm, Algorithm::kTree);
    EXPECT_THAT(choose(kDirectMaxBytes).reason, HasSubstr("are 3, not 7"));
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

}  // namespace
}  // namespace maypole::collective
