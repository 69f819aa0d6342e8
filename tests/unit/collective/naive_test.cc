#include "collective/naive.h"

#include <gtest/gtest.h>

#include "collective/make.h"
#include "collective/verify.h"
#include "tests/unit/collective/traffic.h"

namespace maypole::collective {
namespace {

TEST(NaiveSchedule, SendsAndReceivesTwoTimesPMinus1TensorsTogether) {
  for (std::uint32_t members = 1; members <= 6; ++members) {
    for (const Schedule& schedule : MakeSchedules(
             Algorithm::kNaive, {.members = members, .elements = 101, .slice_elements = 16})) {
      EXPECT_EQ(TrafficOf(schedule), (Traffic{(members - 1) * 101, (members - 1) * 101}));
    }
  }
}

TEST(NaiveSchedule, SumsAsDirectDoes) {
  for (std::uint32_t members = 1; members <= 9; ++members) {
    const Shape shape = {.members = members, .elements = 20, .slice_elements = 3};
    const auto naive = VerifySchedules(MakeSchedules(Algorithm::kNaive, shape));
    const auto direct = VerifySchedules(MakeSchedules(Algorithm::kDirect, shape));
    ASSERT_TRUE(naive.ok) << naive.problem;
    EXPECT_EQ(naive.sums, direct.sums);
  }
}

}  // namespace
}  // namespace maypole::collective
