#include "collective/ring.h"

#include <gtest/gtest.h>

#include "collective/make.h"
#include "collective/verify.h"
#include "tests/unit/collective/traffic.h"

namespace maypole::collective {
namespace {

TEST(RingSchedule, SendsExactlyTwoTimesPMinus1OverPWhereItDivides) {
  for (const std::uint32_t members : {1U, 2U, 3U, 5U, 8U, 17U}) {
    const ElementCount chunk = 640;
    for (const Schedule& schedule :
         MakeSchedules(Algorithm::kRing,
                       {.members = members, .elements = chunk * members, .slice_elements = 128})) {
      const ElementCount expected = 2 * (members - 1) * chunk;
      EXPECT_EQ(TrafficOf(schedule), (Traffic{expected, expected}));
    }
  }
}

TEST(RingSchedule, StaysWithinOnePercentOfTheFormulaWhereItDoesNotDivide) {
  const ElementCount elements = 25'557'032;
  for (const Schedule& schedule :
       MakeSchedules(Algorithm::kRing, {.members = 7, .elements = elements})) {
    const double formula = 2.0 * 6 / 7 * static_cast<double>(elements);
    EXPECT_NEAR(static_cast<double>(TrafficOf(schedule).sent), formula, formula / 100);
  }
}

TEST(RingSchedule, SumsEachChunkFromItsOwnMemberOnward) {
  const auto verdict =
      VerifySchedules(MakeSchedules(Algorithm::kRing, {.members = 3, .elements = 3}));
  ASSERT_TRUE(verdict.ok) << verdict.problem;
  EXPECT_EQ(
      verdict.sums,
      (std::vector<SumOrder>{{{0, 1}, "((0+1)+2)"}, {{1, 2}, "(0+(1+2))"}, {{2, 3}, "((0+2)+1)"}}));
}

TEST(RingSchedule, LetsASliceOfALaterRoundGoBeforeItsNeighbour) {
  const Schedule schedule = MakeRingAllReduce({.members = 4, .elements = 32, .slice_elements = 2});
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::kSend && step.source != Buffer::kInput) {
      ASSERT_NE(step.after[0], kNoStep);
      EXPECT_EQ(schedule.steps[step.after[0]].range, step.range);
      EXPECT_EQ(step.after[1], kNoStep);
    }
  }
}

TEST(RingSchedule, OfOneMemberCopiesItsInputSliceBySlice) {
  const Schedule schedule = MakeRingAllReduce({.members = 1, .elements = 5, .slice_elements = 2});
  ASSERT_EQ(schedule.steps.size(), 3U);
  for (const Step& step : schedule.steps) {
    EXPECT_EQ(step.kind, StepKind::kCopy);
    EXPECT_EQ(step.source, Buffer::kInput);
    EXPECT_EQ(step.target, Buffer::kResult);
  }
}

TEST(RingSchedule, OfNoElementsHasNoSteps) {
  EXPECT_TRUE(MakeRingAllReduce({.members = 1, .elements = 0}).steps.empty());
  EXPECT_TRUE(MakeRingAllReduce({.members = 4, .elements = 0}).steps.empty());
}

TEST(RingScheduleDeathTest, RefusesAMemberOutsideTheRing) {
  EXPECT_DEATH(MakeRingAllReduce({.members = 2, .self = Member(2), .elements = 1}), "self");
}

}  // namespace
}  // namespace maypole::collective
