#include "daemon/loop_watch.h"

#include <gtest/gtest.h>

namespace maypole::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr TimePoint kStart{std::chrono::hours(5)};

TEST(LoopWatch, IsWellBeforeTheFirstRound) {
  EXPECT_TRUE(LoopWatch("the loop").Health(kStart).ok);
}

TEST(LoopWatch, IsWellUntilARoundTakesTooLongAndSaysThenSinceWhen) {
  LoopWatch watch("the loop");
  watch.BeginRound(kStart);
  EXPECT_TRUE(watch.Health(kStart + LoopWatch::kRoundMax).ok);
  const HttpAnswer late = watch.Health(kStart + seconds(12));
  EXPECT_FALSE(late.ok);
  EXPECT_EQ(late.text, "the loop has stood still for 12 s (at most 10 s is well)");
}

TEST(LoopWatch, EveryRoundHasItsOwnTime) {
  LoopWatch watch("the loop");
  watch.BeginRound(kStart);
  watch.BeginRound(kStart + seconds(9));
  EXPECT_TRUE(watch.Health(kStart + seconds(12)).ok);
  EXPECT_FALSE(watch.Health(kStart + seconds(19) + milliseconds(1)).ok);
}

TEST(LoopWatch, MayRestForLong) {
  LoopWatch watch("the loop");
  watch.BeginRound(kStart);
  watch.Rest();
  EXPECT_TRUE(watch.Health(kStart + minutes(60)).ok);
}

TEST(LoopWatch, ARoundThatBeganSinceTheQuestionIsWell) {
  LoopWatch watch("the loop");
  watch.BeginRound(kStart);
  EXPECT_TRUE(watch.Health(kStart - milliseconds(1)).ok);
}

}  // namespace
}  // namespace maypole::daemon
