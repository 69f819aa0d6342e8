#include "collective/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maypole::collective {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr LinkModel kLink = {
    .latency_seconds = 20e-6, .bytes_per_second = 125e6, .message_seconds = 5e-6};
constexpr std::uint64_t kMiB = 1 << 20;

Algorithm Chosen(const TuningTable& table, std::uint64_t bytes) {
  return table.Find(Collective::kAllReduce, bytes)->algorithm;
}

TEST(TuningTable, CoversEverySizeOnce) {
  for (const std::uint32_t members : {1U, 2U, 4U, 64U, 1000U}) {
    const TuningTable table = MakeTuningTable(members, kLink);
    ASSERT_FALSE(table.rows.empty());
    std::uint64_t end = 0;
    for (const TuningRow& row : table.rows) {
      EXPECT_EQ(row.bytes_begin, end);
      EXPECT_LT(row.bytes_begin, row.bytes_end);
      EXPECT_NE(row.algorithm, Algorithm::kAuto);
      EXPECT_FALSE(row.reason.empty());
      end = row.bytes_end;
    }
    EXPECT_EQ(end, std::numeric_limits<std::uint64_t>::max());
    EXPECT_NE(table.Find(Collective::kAllReduce, end), nullptr);
    EXPECT_EQ(table.Find(Collective::kBarrier, 0), nullptr);
  }
}

TEST(TuningTable, TakesFewRoundsForSmallTensorsAndTheRingForLargeOnes) {
  const TuningTable four = MakeTuningTable(4, kLink);
  EXPECT_EQ(Chosen(four, 4096), Algorithm::kDirect);
  EXPECT_EQ(Chosen(four, 256 * kMiB), Algorithm::kRing);
  const TuningTable many = MakeTuningTable(512, kLink);
  EXPECT_EQ(Chosen(many, 4096), Algorithm::kDoubleTree) << "512 messages cost more than 18 rounds";
  EXPECT_EQ(Chosen(many, kMiB), Algorithm::kHalvingDoubling);
  EXPECT_EQ(Chosen(many, 4096 * kMiB), Algorithm::kRing);
}

TEST(TuningTable, IsNeverMuchSlowerThanAnyAlgorithmAtTheModelledSizes) {
  for (const std::uint32_t members : {2U, 3U, 8U, 100U}) {
    const TuningTable table = MakeTuningTable(members, kLink);
    for (std::uint64_t bytes = 1024; bytes <= 1024 * kMiB; bytes *= 2) {
      const TuningRow& row = *table.Find(Collective::kAllReduce, bytes);
      const double chosen =
          PredictAllReduce(row.algorithm, bytes, members, kLink, row.slice_bytes).seconds;
      for (const Algorithm other : {Algorithm::kRing,
                                    Algorithm::kDirect,
                                    Algorithm::kTree,
                                    Algorithm::kDoubleTree,
                                    Algorithm::kHalvingDoubling}) {
        EXPECT_LE(chosen, 1.031 * PredictAllReduce(other, bytes, members, kLink).seconds)
            << bytes << " bytes, " << Name(row.algorithm) << " against " << Name(other);
      }
    }
  }
}

TEST(TuningTable, TakesAHierarchyWhereInnerLinksAreFaster) {
  const LevelModel levels[] = {{8, Algorithm::kRing, {1e-6, 1e10, 1e-7}},
                               {8, Algorithm::kRing, kLink}};
  const TuningTable table = MakeTuningTable(64, kLink, levels);
  EXPECT_EQ(Chosen(table, 64 * kMiB), Algorithm::kHierarchical);
  EXPECT_NE(Chosen(MakeTuningTable(64, kLink), 64 * kMiB), Algorithm::kHierarchical);
}

TEST(TuningTable, SaysWhatTheOthersWouldCost) {
  EXPECT_THAT(MakeTuningTable(4, kLink).rows.front().reason,
              AllOf(HasSubstr("direct"), HasSubstr("instead: ring"), HasSubstr("us")));
}

}  // namespace
}  // namespace maypole::collective
