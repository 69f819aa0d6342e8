#include "agent/engine/row_ratios.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maypole::agent {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

void AddMany(RowRatios& ratios, std::size_t row, std::size_t count, double ratio) {
  for (std::size_t i = 0; i < count; ++i) {
    ratios.Add(row, ratio * 1e-6, 1e-6);
  }
}

TEST(RowRatiosTest, TellsTheMedianOnceThereIsNewsEnough) {
  RowRatios ratios;
  AddMany(ratios, 3, 1, 1000);
  AddMany(ratios, 3, RowRatios::kOpsPerReport - 2, 2);
  EXPECT_THAT(ratios.Take(), IsEmpty());
  AddMany(ratios, 3, 1, 2);
  const auto rows = ratios.Take();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].row, 3u);
  EXPECT_EQ(rows[0].ops, RowRatios::kOpsPerReport);
  EXPECT_DOUBLE_EQ(rows[0].ratio, 2);
  EXPECT_THAT(ratios.Take(), IsEmpty());
}

TEST(RowRatiosTest, AFewLongOpsAreNewsEnough) {
  RowRatios ratios;
  for (int round = 0; round < 2; ++round) {
    ratios.Add(0, 0.2, 0.1);
    ratios.Add(0, 0.2, 0.1);
    EXPECT_THAT(ratios.Take(), IsEmpty());
    ratios.Add(0, 0.2, 0.1);
    EXPECT_THAT(ratios.Take(), SizeIs(1));
  }
}

TEST(RowRatiosTest, ForgetsWhatIsLongAgo) {
  RowRatios ratios;
  AddMany(ratios, 0, 1000, 5);
  AddMany(ratios, 0, RowRatios::kOpsKept, 1);
  EXPECT_DOUBLE_EQ(ratios.Take().at(0).ratio, 1);
}

TEST(RowRatiosTest, ForgetsARowThatSaysSomethingElse) {
  RowRatios ratios;
  AddMany(ratios, 0, RowRatios::kOpsPerReport, 1);
  AddMany(ratios, 1, RowRatios::kOpsPerReport, 2);
  ratios.Forget(0);
  ratios.Forget(7);
  const auto rows = ratios.Take();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].row, 1u);
}

}  // namespace
}  // namespace maypole::agent
