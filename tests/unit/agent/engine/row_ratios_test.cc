#include "agent/engine/row_ratios.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maypole::agent {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(RowRatiosTest, TellsTheMedianOnceThereIsNewsEnough) {
  RowRatios ratios;
  for (std::uint32_t i = 0; i + 1 < RowRatios::kOpsPerReport; ++i) {
    ratios.Add(3, i == 0 ? 1000 : 2);
  }
  EXPECT_THAT(ratios.Take(), IsEmpty());
  ratios.Add(3, 2);
  const auto rows = ratios.Take();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].row, 3u);
  EXPECT_EQ(rows[0].ops, RowRatios::kOpsPerReport);
  EXPECT_EQ(rows[0].ratio, 2);
  EXPECT_THAT(ratios.Take(), IsEmpty());
}

TEST(RowRatiosTest, ForgetsWhatIsLongAgo) {
  RowRatios ratios;
  for (std::size_t i = 0; i < 1000; ++i) {
    ratios.Add(0, 5);
  }
  for (std::size_t i = 0; i < RowRatios::kOpsKept; ++i) {
    ratios.Add(0, 1);
  }
  EXPECT_EQ(ratios.Take().at(0).ratio, 1);
  ratios.Add(0, 1);
  ratios.Clear();
  EXPECT_THAT(ratios.Take(), IsEmpty());
}

}  // namespace
}  // namespace maypole::agent
