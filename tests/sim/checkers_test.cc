// The checkers can fail: each fault of a core that they are there for is put in, and must be
// noticed.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_cluster.h"

namespace maypole::sim {
namespace {

// The violations of the first seed that had any.
std::string FirstViolations(SimCluster::Options options) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SimCluster cluster(seed, options);
    cluster.Run();
    if (!cluster.violations().empty()) {
      std::string all;
      for (const std::string& violation : cluster.violations()) {
        all += violation + "\n";
      }
      return all;
    }
  }
  return "none";
}

using testing::HasSubstr;

TEST(CheckersTest, NoticeABitFlippedOnTheWire) {
  EXPECT_THAT(FirstViolations({.tampering = {.corrupt_payload = true}}), HasSubstr("wrong bits"));
}

TEST(CheckersTest, NoticeACompletionThatNeverCame) {
  EXPECT_THAT(FirstViolations({.tampering = {.drop_completion = true}}),
              HasSubstr("never completed"));
}

TEST(CheckersTest, NoticeASecondCompletion) {
  EXPECT_THAT(FirstViolations({.tampering = {.double_completion = true}}),
              HasSubstr("not in flight"));
}

TEST(CheckersTest, NoticeSuccessBeforeTheLastSlice) {
  EXPECT_THAT(FirstViolations({.with_errors = false, .tampering = {.complete_early = true}}),
              HasSubstr("wrong bits"));
}

TEST(CheckersTest, NoticeAnInputThatWasNotRestored) {
  EXPECT_THAT(FirstViolations({.faults = {Fault::kKillAgent}, .tampering = {.skip_restore = true}}),
              HasSubstr("not as submitted"));
}

TEST(CheckersTest, NoticeAnArrivalThatNobodyTook) {
  EXPECT_THAT(FirstViolations({.faults = {Fault::kKillRank}, .tampering = {.keep_arrival = true}}),
              HasSubstr("neither received nor dropped"));
}

TEST(CheckersTest, NoticeASessionThatIsNeverReleased) {
  EXPECT_THAT(FirstViolations({.tampering = {.drop_release = true}}), HasSubstr("not released"));
}

TEST(CheckersTest, NoticeMismatchesThatAreToldDifferently) {
  EXPECT_THAT(FirstViolations({.tampering = {.other_mismatch_text = true}}),
              HasSubstr("different texts"));
}

}  // namespace
}  // namespace maypole::sim
