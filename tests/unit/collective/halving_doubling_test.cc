#include "collective/halving_doubling.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "collective/make.h"
#include "collective/verify.h"
#include "tests/unit/collective/traffic.h"

namespace maypole::collective {
namespace {

TEST(HalvingDoublingSchedule, SendsWhatTheRingSendsWherePIsAPowerOfTwo) {
  for (const std::uint32_t members : {1U, 2U, 4U, 8U, 16U}) {
    for (const Schedule& schedule :
         MakeSchedules(Algorithm::kHalvingDoubling,
                       {.members = members, .elements = 640 * members, .slice_elements = 128})) {
      const ElementCount expected = 2 * (members - 1) * 640;
      EXPECT_EQ(TrafficOf(schedule), (Traffic{expected, expected}));
    }
  }
}

TEST(HalvingDoublingSchedule, ChargesOneTensorMoreToThoseWhoCarryAFoldedMember) {
  const auto schedules =
      MakeSchedules(Algorithm::kHalvingDoubling, {.members = 6, .elements = 400});
  for (const std::uint32_t member : {0U, 1U}) {
    EXPECT_EQ(TrafficOf(schedules[member]), (Traffic{600 + 400, 600 + 400}));
  }
  for (const std::uint32_t member : {2U, 3U}) {
    EXPECT_EQ(TrafficOf(schedules[member]), (Traffic{600, 600}));
  }
  for (const std::uint32_t member : {4U, 5U}) {
    EXPECT_EQ(TrafficOf(schedules[member]), (Traffic{400, 400}));
  }
}

TEST(HalvingDoublingSchedule, SumsEveryElementAlikeWhateverTheSize) {
  for (const ElementCount elements : {1U, 5U, 64U}) {
    const auto verdict = VerifySchedules(MakeSchedules(
        Algorithm::kHalvingDoubling, {.members = 6, .elements = elements, .slice_elements = 3}));
    ASSERT_TRUE(verdict.ok) << verdict.problem;
    EXPECT_EQ(verdict.sums, (std::vector<SumOrder>{{{0, elements}, "(((0+4)+2)+((1+5)+3))"}}));
  }
}

TEST(HalvingDoublingSchedule, OfNoElementsHasNoSteps) {
  EXPECT_TRUE(MakeHalvingDoublingAllReduce({.members = 5, .elements = 0}).steps.empty());
}

}  // namespace
}  // namespace maypole::collective
