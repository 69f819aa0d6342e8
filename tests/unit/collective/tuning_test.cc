#include "collective/tuning.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/parts.h"

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
    std::uint64_t end = kNoLimit;
    std::set<Collective> collectives;
    for (const TuningRow& row : table.rows) {
      if (collectives.insert(row.collective).second) {
        EXPECT_EQ(end, kNoLimit);
        end = 0;
      }
      EXPECT_EQ(row.bytes_begin, end);
      EXPECT_LT(row.bytes_begin, row.bytes_end);
      EXPECT_TRUE(row.algorithm != Algorithm::kAuto && IsAvailable(row.collective, row.algorithm));
      EXPECT_FALSE(row.reason.empty());
      end = row.bytes_end;
    }
    EXPECT_EQ(end, kNoLimit);
    EXPECT_THAT(collectives,
                testing::ElementsAre(Collective::kAllReduce,
                                     Collective::kReduceScatter,
                                     Collective::kAllGather,
                                     Collective::kBroadcast,
                                     Collective::kReduce));
    EXPECT_NE(table.Find(Collective::kAllReduce, kNoLimit), nullptr);
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

MeasuredLinks Links() {
  return {kLink, kLink, {}};
}

TEST(TuningTable, PredictsEverySizeOfARow) {
  const TuningTable table = MakeTuningTable(4, kLink);
  for (const std::uint64_t bytes : {64U, 1024U, 5000U, 300'000U, 25U << 20}) {
    const TuningRow& row = *table.Find(Collective::kAllReduce, bytes);
    const double exact = PredictAllReduce(row.algorithm, bytes, 4, kLink, row.slice_bytes).seconds;
    EXPECT_NEAR(row.SecondsFor(bytes) / exact, 1, 0.1) << bytes;
  }
  EXPECT_EQ(TuningRow{}.SecondsFor(1000), 0) << "nothing is predicted";
}

TEST(TuningTable, ARuleCountsInItsRangeAndTheModelAround) {
  const TuningRule rule = {.bytes_begin = 5000,
                           .bytes_end = 100'000,
                           .algorithm = Algorithm::kTree,
                           .slice_bytes = 65536,
                           .origin = "rules.toml, line 3"};
  const TuningTable table =
      MakeTuningTable({.members = 4, .links = Links(), .rules = std::span(&rule, 1)});
  EXPECT_EQ(Chosen(table, 4999), Algorithm::kDirect);
  for (const std::uint64_t bytes : {5000U, 8192U, 99'999U}) {
    const TuningRow& row = *table.Find(Collective::kAllReduce, bytes);
    EXPECT_EQ(row.algorithm, Algorithm::kTree);
    EXPECT_EQ(row.slice_bytes, 65536u);
    EXPECT_TRUE(row.is_rule);
    EXPECT_GT(row.seconds, 0);
    EXPECT_THAT(row.reason, HasSubstr("rules.toml, line 3"));
  }
  EXPECT_NE(Chosen(table, 100'000), Algorithm::kTree);
}

TEST(TuningTable, WithoutLinksOnlyRulesGiveRows) {
  EXPECT_TRUE(MakeTuningTable({.members = 4}).rows.empty());
  const TuningRule rules[] = {{.bytes_end = 100, .algorithm = Algorithm::kNaive, .origin = "a"},
                              {.collective = Collective::kBarrier, .origin = "b"}};
  const TuningTable table = MakeTuningTable({.members = 4, .rules = rules});
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Chosen(table, 99), Algorithm::kNaive);
  EXPECT_EQ(table.Find(Collective::kAllReduce, 100), nullptr);
  EXPECT_NE(table.Find(Collective::kBarrier, 0), nullptr);
}

TEST(TuningTable, ARuleForAHierarchyCountsOnlyWithLevels) {
  const TuningRule rule = {.algorithm = Algorithm::kHierarchical, .origin = "a"};
  EXPECT_TRUE(MakeTuningTable({.members = 4, .rules = std::span(&rule, 1)}).rows.empty());
  EXPECT_EQ(
      Chosen(MakeTuningTable({.members = 4, .has_levels = true, .rules = std::span(&rule, 1)}), 1),
      Algorithm::kHierarchical);
}

TEST(TuningTable, WhatWasLearnedChangesTheChoiceNearThatSizeOnly) {
  const Correction correction = {.algorithm = Algorithm::kDirect, .bytes = 4096, .factor = 10};
  const TuningTable table =
      MakeTuningTable({.members = 4, .links = Links(), .corrections = std::span(&correction, 1)});
  EXPECT_NE(Chosen(table, 4096), Algorithm::kDirect);
  EXPECT_NE(Chosen(table, 8192), Algorithm::kDirect);
  EXPECT_EQ(Chosen(table, 1024), Algorithm::kDirect);
  EXPECT_EQ(CorrectionFor(std::span(&correction, 1), {}, Algorithm::kDirect, 8192), 10);
  EXPECT_EQ(CorrectionFor(std::span(&correction, 1), {}, Algorithm::kDirect, 16384), 1);
  EXPECT_EQ(CorrectionFor(std::span(&correction, 1), {}, Algorithm::kRing, 4096), 1);
}

TEST(TuningTable, SaysWhatTheOthersWouldCost) {
  EXPECT_THAT(MakeTuningTable(4, kLink).rows.front().reason,
              AllOf(HasSubstr("direct"), HasSubstr("instead: ring"), HasSubstr("us")));
}

}  // namespace
}  // namespace maypole::collective
