#include "collective/tuning.h"

#include <map>
#include <set>
#include <vector>

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
  EXPECT_EQ(Chosen(table, 16384), Chosen(MakeTuningTable({.members = 4, .links = Links()}), 16384));
}

// Truth is not what the formulas say; all is measured that is tried.
TEST(TuningTable, ARowThatIsMeasuredTriesItsRivalsAndKeepsTheFastest) {
  const auto truth = [](const TuningRow& row) {
    const double factor = row.algorithm == Algorithm::kDirect            ? 1.9
                          : row.algorithm == Algorithm::kTree            ? 1.0
                          : row.algorithm == Algorithm::kHalvingDoubling ? 1.7
                                                                         : 3.0;
    return factor * FormulaSeconds(Links(), 4, row);
  };
  std::vector<Correction> learned;
  std::map<Algorithm, double> tried;
  TuningRow row;
  for (int step = 0; step < 30; ++step) {
    row = *MakeTuningTable({.members = 4, .links = Links(), .corrections = learned})
               .Find(Collective::kAllReduce, 4096);
    if (step > 0 && !row.reason.starts_with("tries ")) {
      break;
    }
    tried[row.algorithm] = truth(row);
    const Correction* known = MeasuredIn(learned, row, row.algorithm);
    const std::uint32_t visits = known == nullptr ? 1 : known->visits + 1;
    EXPECT_LE(visits, kVisits);
    std::erase_if(learned, [&](const Correction& c) { return c.algorithm == row.algorithm; });
    learned.push_back({.algorithm = row.algorithm,
                       .bytes = row.seconds_at,
                       .factor = truth(row) / FormulaSeconds(Links(), 4, row),
                       .visits = visits});
  }
  EXPECT_GE(tried.size(), 2u);
  for (const auto& [algorithm, seconds] : tried) {
    EXPECT_LE(tried.at(row.algorithm), seconds * (1 + kTie)) << Name(algorithm);
  }
  EXPECT_NEAR(row.seconds / tried.at(row.algorithm), 1, 1e-9);
  EXPECT_THAT(row.reason, HasSubstr("(measured)"));
  // Far rivals are not worth a try.
  for (const Algorithm algorithm : kAlgorithms) {
    if (algorithm != Algorithm::kHierarchical && algorithm != Algorithm::kNaive &&
        !tried.contains(algorithm)) {
      TuningRow other = row;
      other.algorithm = algorithm;
      EXPECT_GT(FormulaSeconds(Links(), 4, other), row.seconds * kTryWithin) << Name(algorithm);
    }
  }
}

TEST(TuningTable, OfCorrectionsTheNearestCountsAndAmongEquallyNearTheSmaller) {
  const auto factor_at = [](std::uint64_t bytes, const std::vector<Correction>& corrections) {
    const TuningRule rule = {
        .bytes_begin = bytes, .algorithm = Algorithm::kRing, .origin = "rules.toml, line 1"};
    const TuningTable table = MakeTuningTable(
        {.members = 4, .links = Links(), .rules = std::span(&rule, 1), .corrections = corrections});
    const TuningRow& row = *table.Find(Collective::kAllReduce, bytes);
    return row.seconds / FormulaSeconds(Links(), 4, row);
  };
  const Correction small = {.algorithm = Algorithm::kRing, .bytes = 4096, .factor = 3};
  const Correction large = {.algorithm = Algorithm::kRing, .bytes = 16384, .factor = 5};
  const std::map<std::uint64_t, double> expected = {
      {1024, 1}, {2048, 3}, {4096, 3}, {8192, 3}, {16384, 5}, {32768, 5}, {65536, 1}};
  for (const auto& [bytes, factor] : expected) {
    EXPECT_NEAR(factor_at(bytes, {small, large}), factor, 1e-9) << bytes;
    EXPECT_NEAR(factor_at(bytes, {large, small}), factor, 1e-9) << bytes;
  }
}

TEST(TuningTable, SaysWhatTheOthersWouldCost) {
  EXPECT_THAT(MakeTuningTable(4, kLink).rows.front().reason,
              AllOf(HasSubstr("direct"), HasSubstr("instead: ring"), HasSubstr("us")));
}

}  // namespace
}  // namespace maypole::collective
