#include "agent/idle.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maypole::agent {
namespace {

using std::chrono::microseconds;

// How many of `times` spins are begun where every `each`-th one pays.
int Begun(SpinHistory& history, int times, int each) {
  int begun = 0;
  for (int i = 0; i < times; ++i) {
    if (history.IsWorthATry()) {
      ++begun;
      history.Add(begun % each == 0);
    }
  }
  return begun;
}

TEST(SpinHistoryTest, GoesOnWhileOneInThreePays) {
  SpinHistory history;
  EXPECT_EQ(Begun(history, 1000, 3), 1000);
}

TEST(SpinHistoryTest, LooksNowAndThenWhereNonePays) {
  SpinHistory history;
  Begun(history, 1000, 1 << 20);
  EXPECT_GT(Begun(history, 1000, 1 << 20), 0);
  EXPECT_LT(Begun(history, 1000, 1 << 20), 30);
}

TEST(SpinHistoryTest, BeginsAgainOnceTheyPay) {
  SpinHistory history;
  Begun(history, 1000, 1 << 20);
  Begun(history, 1000, 1);
  EXPECT_EQ(Begun(history, 100, 1), 100);
}

TEST(IdlePolicyTest, NeverSpinsWhenIdleOrToldNotTo) {
  const TimePoint now{};
  EXPECT_FALSE(IdlePolicy(microseconds(20)).KeepSpinning(false, now));
  EXPECT_FALSE(IdlePolicy(microseconds(0)).KeepSpinning(true, now));
}

TEST(IdlePolicyTest, ASpinEnds) {
  IdlePolicy policy(microseconds(20));
  TimePoint now{};
  for (int i = 0; i < 1000; ++i) {
    policy.KeepSpinning(true, now);  // if a core is free at all
    now += microseconds(20);
    EXPECT_FALSE(policy.KeepSpinning(true, now));
    now += microseconds(100);
    EXPECT_FALSE(policy.KeepSpinning(true, now)) << "not before something was done";
    policy.Reset();
  }
}

}  // namespace
}  // namespace maypole::agent
