#include "collective/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(Selection, NeverLeavesTheChoiceOpen) {
  for (const auto collective : {Collective::kAllReduce, Collective::kBarrier}) {
    for (const std::uint32_t members : {1U, 2U, 64U}) {
      for (const std::uint64_t bytes : {0U, 1U, 1U << 30}) {
        const Choice choice = Select(collective, bytes, members, DType::kI64, Algorithm::kAuto);
        EXPECT_NE(choice.algorithm, Algorithm::kAuto);
        EXPECT_FALSE(choice.reason.empty());
      }
    }
  }
}

}  // namespace
}  // namespace maypole::collective
