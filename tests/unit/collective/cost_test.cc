#include "collective/cost.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "collective/hierarchical.h"
#include "collective/make.h"
#include "collective/simulate.h"
#include "tests/unit/collective/algorithms.h"
#include "tests/unit/collective/networks.h"

namespace maypole::collective {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

double Milliseconds(Algorithm algorithm, std::uint64_t bytes, std::uint32_t members) {
  return PredictAllReduce(algorithm, bytes, members, kLink).seconds * 1e3;
}

TEST(CostModel, GivesTheKnownFiguresAt25GbitAnd5Microseconds) {
  constexpr double kHalfDigit = 0.005;
  EXPECT_NEAR(Milliseconds(Algorithm::kRing, 64 * kMiB, 4), 32.24, kHalfDigit);
  EXPECT_NEAR(Milliseconds(Algorithm::kNaive, 64 * kMiB, 4), 128.88, kHalfDigit);
  EXPECT_NEAR(Milliseconds(Algorithm::kRing, 64 * kMiB, 16), 40.42, kHalfDigit);
  EXPECT_NEAR(Milliseconds(Algorithm::kNaive, 64 * kMiB, 16), 644.40, kHalfDigit);
  EXPECT_NEAR(Milliseconds(Algorithm::kRing, 512 * kMiB, 4), 257.73, kHalfDigit);
  EXPECT_NEAR(Milliseconds(Algorithm::kNaive, 512 * kMiB, 4), 1030.82, kHalfDigit);
  EXPECT_NEAR(Milliseconds(Algorithm::kRing, 512 * kMiB, 16), 322.27, kHalfDigit);
  EXPECT_NEAR(Milliseconds(Algorithm::kNaive, 512 * kMiB, 16), 5154.11, kHalfDigit);
}

TEST(CostModel, CountsRoundsAndBytes) {
  const Cost ring = PredictAllReduce(Algorithm::kRing, 1000, 5, kLink);
  EXPECT_EQ(ring.rounds, 8U);
  EXPECT_EQ(ring.bytes_sent, 1600U);
  EXPECT_EQ(ring.bytes_received, 1600U);
  const Cost direct = PredictAllReduce(Algorithm::kDirect, 1000, 5, kLink);
  EXPECT_EQ(direct.rounds, 2U);
  EXPECT_EQ(direct.bytes_sent, 1600U);
  const Cost naive = PredictAllReduce(Algorithm::kNaive, 1000, 5, kLink);
  EXPECT_EQ(naive.rounds, 1U);
  EXPECT_EQ(naive.bytes_sent + naive.bytes_received, 8000U);
}

TEST(CostModel, SavesTheRingsLatenciesByDirect) {
  const double ring = PredictAllReduce(Algorithm::kRing, 4096, 16, kLink).seconds;
  const double direct = PredictAllReduce(Algorithm::kDirect, 4096, 16, kLink).seconds;
  EXPECT_NEAR(ring - direct, 28 * kLink.latency_seconds, 1e-12);
}

TEST(CostModel, OfOneMemberIsNothing) {
  for (const Algorithm algorithm : kFlatAlgorithms) {
    const Cost cost = PredictAllReduce(algorithm, 64 * kMiB, 1, kLink);
    EXPECT_EQ(cost.rounds, 0U);
    EXPECT_EQ(cost.bytes_sent, 0U);
    EXPECT_EQ(cost.seconds, 0);
  }
}

TEST(CostModel, CountsRoundsAndBytesAsTheSchedulesDo) {
  for (const Algorithm algorithm : kFlatAlgorithms) {
    for (std::uint32_t members = 1; members <= 17; ++members) {
      SCOPED_TRACE(testing::Message() << Name(algorithm) << " of " << members);
      const ElementCount elements = 16 * members;
      const auto schedules = MakeSchedules(algorithm, {.members = members, .elements = elements});
      const Simulation simulation = Simulate(schedules, {.link = kLink});
      const Cost cost = PredictAllReduce(algorithm, elements * 4, members, kLink);
      EXPECT_EQ(simulation.rounds, cost.rounds);
      // Chunks of a tensor that they do not divide are uneven by an element or two.
      const double sent = static_cast<double>(
          *std::max_element(simulation.bytes_sent.begin(), simulation.bytes_sent.end()));
      EXPECT_NEAR(sent, static_cast<double>(cost.bytes_sent), 8);
    }
  }
}

struct Setting {
  Algorithm algorithm;
  double tolerance;  // relative
};

// One slice, and the pipelines of many; the tolerances are what contention on the ports adds,
// and what the overlap of folding with the first stages saves.
TEST(CostModel, AgreesWithTheSimulatedTime) {
  const Setting settings[] = {{Algorithm::kRing, 0.05},
                              {Algorithm::kDirect, 0.1},
                              {Algorithm::kTree, 0.3},
                              {Algorithm::kDoubleTree, 0.25},
                              {Algorithm::kHalvingDoubling, 0.35}};
  for (const Setting& setting : settings) {
    for (const std::uint32_t members : {2U, 3U, 4U, 6U, 8U, 13U, 16U, 32U, 64U}) {
      for (const std::uint64_t bytes : {4 * kMiB / 1024, kMiB / 4, 4 * kMiB, 64 * kMiB}) {
        const double predicted = PredictAllReduce(setting.algorithm, bytes, members, kLink).seconds;
        const auto schedules =
            MakeSchedules(setting.algorithm, {.members = members, .elements = bytes / 4});
        const double simulated = Simulate(schedules, {.link = kLink}, {.window = 64}).seconds;
        EXPECT_NEAR(simulated / predicted, 1, setting.tolerance)
            << Name(setting.algorithm) << " of " << members << ", " << bytes << " bytes";
      }
    }
  }
}

// The same on rails and behind oversubscribed uplinks, where they matter: for large tensors.
TEST(CostModel, AgreesWithTheSimulatedTimeOnRailsAndBehindUplinks) {
  const Setting settings[] = {{Algorithm::kRing, 0.08},
                              {Algorithm::kDirect, 0.25},
                              {Algorithm::kTree, 0.35},
                              {Algorithm::kDoubleTree, 0.35},
                              {Algorithm::kHalvingDoubling, 0.35}};
  for (const Setting& setting : settings) {
    for (const std::uint32_t members : {8U, 32U}) {
      for (const Network& network :
           {Network{.link = WithRails(4)}, FatTree(members, 4, 2), FatTree(members, 4, 4)}) {
        const std::uint64_t bytes = 64 * kMiB;
        const Shape shape = {
            .members = members, .elements = bytes / 4, .slice_elements = 64 * 1024 / 4};
        const double predicted =
            PredictAllReduce(setting.algorithm, bytes, members, network.link, 64 * 1024).seconds;
        const double simulated =
            SimulateAllReduce(setting.algorithm, shape, network, {.window = 64}).seconds;
        EXPECT_NEAR(simulated / predicted, 1, setting.tolerance)
            << Name(setting.algorithm) << " of " << members << ", "
            << (network.link.rails > 1 ? "rails" : "uplinks");
      }
    }
  }
}

TEST(CostModel, UsesAsManyRailsAsMessages) {
  const auto ring = [](std::uint32_t rails, std::uint64_t slice) {
    return PredictAllReduce(Algorithm::kRing, 64 * kMiB, 4, WithRails(rails), slice).seconds;
  };
  EXPECT_NEAR(ring(1, kMiB) / ring(4, kMiB), 4, 0.02);
  EXPECT_EQ(ring(4, 16 * kMiB), ring(1, 16 * kMiB));
}

TEST(CostModel, AddsTheLevelsOfAHierarchy) {
  const LinkModel fast = {.latency_seconds = 1e-6, .bytes_per_second = 1e11};
  const LevelModel levels[] = {{8, Algorithm::kRing, fast}, {8, Algorithm::kTree, kLink}};
  const Cost cost = PredictHierarchical(levels, 64 * kMiB);
  const Cost inside = PredictAllReduce(Algorithm::kRing, 64 * kMiB, 8, fast);
  const Cost across = PredictAllReduce(Algorithm::kTree, 8 * kMiB, 8, kLink);
  EXPECT_EQ(cost.rounds, 14U + 6U);
  EXPECT_EQ(cost.bytes_sent, inside.bytes_sent + across.bytes_sent);
  // Every chunk inside has many messages: only the last of them shows its latency.
  EXPECT_DOUBLE_EQ(cost.seconds, inside.seconds - 14 * 1e-6 + across.seconds);
}

TEST(CostModel, ChargesAHierarchyForTheMessagesThatItsSchedulesHave) {
  LinkModel link = kLink;
  link.message_seconds = 20e-6;
  const Algorithm algorithms[] = {Algorithm::kRing, Algorithm::kHalvingDoubling};
  const LevelModel levels[] = {{4, algorithms[0], link}, {16, algorithms[1], link}};
  const Shape shape = {.members = 64,
                       .elements = 64 * 1024,
                       .levels = EvenLevels({4, 16}, {algorithms[0], algorithms[1]})};
  const double simulated =
      SimulateAllReduce(Algorithm::kHierarchical, shape, {.link = link}, {.window = 64}).seconds;
  EXPECT_NEAR(simulated / PredictHierarchical(levels, 4 * shape.elements).seconds, 1, 0.2);
}

TEST(CostModel, CountsTheRoundsOfAHierarchyAsItsSchedulesDo) {
  const LevelModel levels[] = {{4, Algorithm::kRing, kLink}, {3, Algorithm::kTree, kLink}};
  const auto schedules =
      MakeSchedules(Algorithm::kHierarchical,
                    {.members = 12,
                     .elements = 48,
                     .levels = EvenLevels({4, 3}, {Algorithm::kRing, Algorithm::kTree})});
  EXPECT_EQ(Simulate(schedules, {.link = kLink}).rounds, PredictHierarchical(levels, 192).rounds);
}

TEST(CostModel, CallsTwiceTheSizeOverTheTimeTheEffectiveBandwidth) {
  EXPECT_DOUBLE_EQ(EffectiveBandwidth(1000, 0.5), 4000);
  EXPECT_EQ(EffectiveBandwidth(1000, 0), 0);
}

}  // namespace
}  // namespace maypole::collective
