#include "collective/cost.h"

#include <gtest/gtest.h>

namespace maypole::collective {
namespace {

constexpr LinkModel kLink = {.latency_seconds = 5e-6, .bytes_per_second = 25e9 / 8};
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
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect, Algorithm::kNaive}) {
    const Cost cost = PredictAllReduce(algorithm, 64 * kMiB, 1, kLink);
    EXPECT_EQ(cost.rounds, 0U);
    EXPECT_EQ(cost.bytes_sent, 0U);
    EXPECT_EQ(cost.seconds, 0);
  }
}

TEST(CostModel, CallsTwiceTheSizeOverTheTimeTheEffectiveBandwidth) {
  EXPECT_DOUBLE_EQ(EffectiveBandwidth(1000, 0.5), 4000);
  EXPECT_EQ(EffectiveBandwidth(1000, 0), 0);
}

}  // namespace
}  // namespace maypole::collective
