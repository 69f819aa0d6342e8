#include "agent/engine/link_fit.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maypole::agent {
namespace {

using Seconds = std::array<std::vector<double>, kTrains.size()>;

double TrainSeconds(const TrainKind& train, const collective::LinkModel& link) {
  return 2 * link.latency_seconds +
         train.frames * (link.message_seconds +
                         static_cast<double>(train.frame_bytes) / link.bytes_per_second);
}

// What a prober would see, each time longer by `noise` seconds at random.
Seconds Measured(const collective::LinkModel& link, const std::function<double()>& noise) {
  Seconds seconds;
  for (std::size_t kind = 0; kind < kTrains.size(); ++kind) {
    for (std::uint32_t repeat = 1; repeat < kTrains[kind].repeats; ++repeat) {
      seconds[kind].push_back(TrainSeconds(kTrains[kind], link) + noise());
    }
  }
  return seconds;
}

void ExpectNear(const collective::LinkModel& fit, const collective::LinkModel& link, double share) {
  EXPECT_NEAR(fit.latency_seconds / link.latency_seconds, 1, share);
  EXPECT_NEAR(fit.message_seconds / link.message_seconds, 1, share);
  EXPECT_NEAR(fit.bytes_per_second / link.bytes_per_second, 1, share);
}

constexpr collective::LinkModel kLinks[] = {
    {.latency_seconds = 30e-6, .bytes_per_second = 1.25e8, .message_seconds = 3e-6},
    {.latency_seconds = 5e-6, .bytes_per_second = 3.1e9, .message_seconds = 1e-6},
    {.latency_seconds = 2e-3, .bytes_per_second = 1.25e7, .message_seconds = 5e-6}};

TEST(LinkFitTest, FindsWhatALinkCosts) {
  for (const collective::LinkModel& link : kLinks) {
    const auto fit = FitLink(Measured(link, [] { return 0.0; }));
    ASSERT_TRUE(fit);
    ExpectNear(*fit, link, 1e-9);
  }
}

TEST(LinkFitTest, IsNotMovedByOutliers) {
  std::mt19937 random(3);
  std::uniform_real_distribution<> chance(0, 1);
  for (const collective::LinkModel& link : kLinks) {
    // Every third train meets something else on its way.
    const auto noise = [&] {
      const double small = 0.02 * link.latency_seconds * chance(random);
      return chance(random) < 0.33 ? 5e-3 * chance(random) + small : small;
    };
    ExpectNear(*FitLink(Measured(link, noise)), link, 0.15);
  }
}

TEST(LinkFitTest, TakesTheSustainedRateBehindATokenBucket) {
  const collective::LinkModel& link = kLinks[0];
  Seconds seconds = Measured(link, [] { return 0.0; });
  seconds.back()[0] /= 10;  // the bucket was full
  ExpectNear(*FitLink(seconds), link, 0.01);
}

TEST(LinkFitTest, NeverFindsWhatCannotBe) {
  Seconds seconds = {std::vector<double>{1e-3}, {1e-4}, {1e-5}};  // more takes less
  const auto fit = FitLink(seconds);
  ASSERT_TRUE(fit);
  EXPECT_GT(fit->latency_seconds, 0);
  EXPECT_GT(fit->message_seconds, 0);
  EXPECT_GT(fit->bytes_per_second, 0);
}

TEST(LinkFitTest, NeedsEveryKindOfTrain) {
  Seconds seconds = Measured(kLinks[0], [] { return 0.0; });
  seconds[1].clear();
  EXPECT_FALSE(FitLink(seconds));
}

}  // namespace
}  // namespace maypole::agent
