// Every maker, for every small shape (enumerated, not sampled) and for some large ones of random
// shape.

#include <random>

#include <gtest/gtest.h>

#include "collective/make.h"
#include "collective/print.h"
#include "collective/verify.h"
#include "tests/unit/collective/algorithms.h"

namespace maypole::collective {
namespace {

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, IsRightForEverySmallShape) {
  for (std::uint32_t members = 1; members <= 17; ++members) {
    for (ElementCount elements = 0; elements <= 4 * members + 1; ++elements) {
      // Up to three slices a chunk for the chunked ones, up to four a tensor for the others.
      const ElementCount slice = CutsChunks(GetParam()) ? 2 : elements / 4 + 1;
      const auto verdict = VerifySchedules(MakeSchedules(
          GetParam(), {.members = members, .elements = elements, .slice_elements = slice}));
      ASSERT_TRUE(verdict.ok) << members << " members, " << elements
                              << " elements: " << verdict.problem;
    }
  }
}

TEST_P(EveryAlgorithm, IsRightForLargeRandomShapes) {
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 12; ++round) {
    const auto members = static_cast<std::uint32_t>(2 + random() % 63);
    const ElementCount elements = random() % 10'000'000;
    const ElementCount slice = 1 + elements / (1 + random() % (CutsChunks(GetParam()) ? 100 : 8));
    const auto verdict = VerifySchedules(MakeSchedules(
        GetParam(), {.members = members, .elements = elements, .slice_elements = slice}));
    ASSERT_TRUE(verdict.ok) << members << " members, " << elements << " elements, slices of "
                            << slice << ": " << verdict.problem;
  }
}

TEST_P(EveryAlgorithm, IsRightBeyond32Bits) {
  const ElementCount elements = (ElementCount{1} << 33) + 7;
  const auto verdict = VerifySchedules(MakeSchedules(
      GetParam(), {.members = 3, .elements = elements, .slice_elements = ElementCount{1} << 30}));
  EXPECT_TRUE(verdict.ok) << verdict.problem;
}

INSTANTIATE_TEST_SUITE_P(All,
                         EveryAlgorithm,
                         testing::ValuesIn(kFlatAlgorithms),
                         [](const auto& made) { return std::string(Name(made.param)); });

}  // namespace
}  // namespace maypole::collective
