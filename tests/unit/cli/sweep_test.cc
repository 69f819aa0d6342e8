#include "cli/plan/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maypole::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

PlanFlags Flags() {
  PlanFlags flags;
  flags.bytes = "1GB";
  flags.ranks = 32;
  flags.bandwidth = "25Gbps";
  return flags;
}

std::vector<std::string> Values(const std::string& text) {
  PlanFlags flags = Flags();
  flags.sweep = text;
  std::vector<std::string> values;
  const auto sweep = SweepOf(flags);
  EXPECT_TRUE(sweep.ok()) << sweep.status().ToString();
  for (const SweepPoint& point : sweep.value_or(Sweep{}).points) {
    values.push_back(point.value);
  }
  return values;
}

TEST(Sweep, DoublesOrLists) {
  EXPECT_THAT(Values("ranks=8..64"), ElementsAre("8", "16", "32", "64"));
  EXPECT_THAT(Values("ranks=8..40"), ElementsAre("8", "16", "32", "40"));
  EXPECT_THAT(Values("bytes=1MiB,25MiB"), ElementsAre("1MiB", "25MiB"));
  EXPECT_THAT(Values("bandwidth=10Gbps..25Gbps"), ElementsAre("10Gbps", "20Gbps", "25Gbps"));
}

TEST(Sweep, ChangesOnlyItsOption) {
  PlanFlags flags = Flags();
  flags.ranks = 0;
  flags.sweep = "ranks=4,8";
  const auto sweep = SweepOf(flags);
  ASSERT_TRUE(sweep.ok()) << sweep.status().ToString();
  EXPECT_EQ(sweep->points[1].request.ranks, 8U);
  EXPECT_EQ(sweep->points[1].request.bytes, 1'000'000'000U);
}

TEST(Sweep, IsRefusedWithItsValue) {
  const auto refusal = [](const std::string& text) {
    PlanFlags flags = Flags();
    flags.sweep = text;
    const auto sweep = SweepOf(flags);
    return sweep.ok() ? "" : std::string(sweep.status().message());
  };
  EXPECT_THAT(refusal("ranks"), AllOf(HasSubstr("\"ranks\""), HasSubstr("ranks=8..1024")));
  EXPECT_THAT(refusal("nodes=1..2"), HasSubstr("nodes=1..2"));
  EXPECT_THAT(refusal("ranks=0..8"), HasSubstr("whole number from 1"));
  EXPECT_THAT(refusal("ranks=8..4"), HasSubstr("ascending"));
  EXPECT_THAT(refusal("bytes=1Gb..4Gb"), HasSubstr("b means bits"));
  EXPECT_THAT(refusal("bandwidth=1..2"), HasSubstr("25Gbps"));
}

}  // namespace
}  // namespace maypole::cli
