#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/bench/board.h"
#include "cli/bench/report.h"

namespace maypole::cli {
namespace {

// Two nodes with two ranks each; rank r ends operation i at i + r/100 seconds, so the last rank
// sets the pace.
std::vector<RankCell> FourRanks() {
  std::vector<RankCell> cells(4);
  for (std::size_t rank = 0; rank < cells.size(); ++rank) {
    cells[rank].cpu_seconds = 1;
    cells[rank].is_first_of_node = rank % 2 == 0 ? 1 : 0;
    cells[rank].agent_cpu_seconds = rank % 2 == 0 ? 2 : 0;
    cells[rank].wire_bytes = rank % 2 == 0 ? 400 : 0;
    for (std::size_t i = 0; i < 4; ++i) {
      cells[rank].ends[i] = static_cast<double>(i) + static_cast<double>(rank) / 100;
    }
  }
  cells[3].ends[3] = 13.03;  // one slow operation must not move the median
  return cells;
}

TEST(BenchReport, TimesAreBetweenTheCompletionsOfTheLastRank) {
  const BenchRow row = MakeRow(BenchPlan(), 1000, 3, FourRanks());
  EXPECT_NEAR(row.time_us, 1e6, 1);
  EXPECT_NEAR(row.time_min_us, 1e6, 1);
  EXPECT_NEAR(row.algbw_bytes_per_s, 1000, 0.01);
  EXPECT_NEAR(row.busbw_bytes_per_s, 1500, 0.01);
}

TEST(BenchReport, TheBusBandwidthIsThatOfTheCollective) {
  const auto busbw = [](collective::Collective collective) {
    BenchPlan plan;
    plan.collective = collective;
    return MakeRow(plan, 1000, 3, FourRanks()).busbw_bytes_per_s;
  };
  EXPECT_NEAR(busbw(collective::Collective::kReduceScatter), 750, 0.01);
  EXPECT_NEAR(busbw(collective::Collective::kBroadcast), 1000, 0.01);
}

TEST(BenchReport, CountsCpuOfRanksAndAgentsAndTheWireOfOneOperation) {
  const BenchRow row = MakeRow(BenchPlan(), 1000, 3, FourRanks());
  EXPECT_EQ(row.nodes, 2U);
  EXPECT_EQ(row.ranks, 4U);
  EXPECT_DOUBLE_EQ(row.cpu_s_per_gb, 8 / (1000.0 * 4 / 1e9));
  EXPECT_DOUBLE_EQ(row.wire_bytes_per_agent, 100);
}

TEST(BenchReport, ZeroBytesHaveATimeAndNoBandwidth) {
  const BenchRow row = MakeRow(BenchPlan(), 0, 3, FourRanks());
  EXPECT_NEAR(row.time_us, 1e6, 1);
  EXPECT_EQ(row.algbw_bytes_per_s, 0);
}

TEST(BenchReport, WrongElementsAreCountedOnlyWhereTheyWereChecked) {
  std::vector<RankCell> cells = FourRanks();
  cells[1].wrong = 3;
  cells[2].wrong = 4;
  EXPECT_EQ(MakeRow(BenchPlan(), 8, 3, cells).wrong, std::nullopt);
  BenchPlan plan;
  plan.check = true;
  EXPECT_EQ(MakeRow(plan, 8, 3, cells).wrong, 7U);
}

TEST(BenchReport, ALineSurvivesTheWayToTheDriver) {
  BenchPlan plan;
  plan.check = true;
  BenchRow row = MakeRow(plan, 1000, 3, FourRanks());
  row.model_ratio = 1.25;
  const std::optional<BenchRow> back = FromLine(ToLine(row));
  ASSERT_TRUE(back);
  EXPECT_EQ(ToLine(*back), ToLine(row));
  EXPECT_EQ(FromLine("a warning of a library"), std::nullopt);
  EXPECT_EQ(FromLine("[1]"), std::nullopt);
}

TEST(BenchReport, JsonHasTheKeysThatOthersReadAndNullForWhatWasNotMeasured) {
  const auto json =
      nlohmann::json::parse(ToJson({MakeRow(BenchPlan(), 1000, 3, FourRanks())}, "cubic"));
  for (const char* key : {"collective",
                          "bytes",
                          "count",
                          "type",
                          "op",
                          "algorithm",
                          "nodes",
                          "ranks",
                          "time_us",
                          "algbw_bytes_per_s",
                          "busbw_bytes_per_s",
                          "wrong",
                          "wire_bytes_per_agent",
                          "cpu_s_per_gb"}) {
    EXPECT_TRUE(json["rows"][0].contains(key)) << key;
  }
  EXPECT_TRUE(json["rows"][0]["wrong"].is_null());
  EXPECT_EQ(json["congestion_control"], "cubic");
}

TEST(Board, IsOneMemoryForAllThatMapIt) {
  const UniqueFd fd = Board::Make(3);
  ASSERT_TRUE(fd.valid());
  const Board writer = Board::Map(fd.get(), 3);
  const Board reader = Board::Map(fd.get(), 3);
  writer.iterations() = 17;
  writer.cells()[2].ends[Board::kMostIterations] = 1.5;
  EXPECT_EQ(reader.iterations(), 17U);
  EXPECT_EQ(reader.cells()[2].ends[Board::kMostIterations], 1.5);
}

}  // namespace
}  // namespace maypole::cli
