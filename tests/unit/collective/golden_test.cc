// The printed schedules of small groups, read as diffs when a maker changes.
// MAYPOLE_UPDATE_GOLDEN=1 rewrites the files.

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "collective/make.h"
#include "collective/print.h"
#include "tests/unit/collective/algorithms.h"
#include "tests/unit/collective/layouts.h"

namespace maypole::collective {
namespace {

void ExpectGolden(const std::string& name, const std::string& printed) {
  const std::string path = std::string(MAYPOLE_GOLDEN_DIR) + "/" + name + ".txt";
  if (std::getenv("MAYPOLE_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << printed;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << " does not exist";
  std::ostringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(printed, golden.str());
}

class GoldenSchedule : public testing::TestWithParam<std::tuple<Algorithm, std::uint32_t>> {};

std::string NameOf(const testing::TestParamInfo<std::tuple<Algorithm, std::uint32_t>>& info) {
  return std::string(Name(std::get<0>(info.param))) + "_p" +
         std::to_string(std::get<1>(info.param));
}

TEST_P(GoldenSchedule, IsPrintedAsReviewed) {
  const auto [algorithm, members] = GetParam();
  // Chunks of 3, 3, ..., 1 or so, in slices of at most 2; those who do not cut chunks would fill
  // pages.
  const ElementCount elements = 2 * members + 1;
  const ElementCount slice_elements = CutsChunks(algorithm) ? 2 : (elements + 1) / 2;
  ExpectGolden(std::string(Name(algorithm)) + "_p" + std::to_string(members),
               Print(MakeSchedules(
                   algorithm,
                   {.members = members, .elements = elements, .slice_elements = slice_elements})));
}

INSTANTIATE_TEST_SUITE_P(All,
                         GoldenSchedule,
                         testing::Combine(testing::ValuesIn(kFlatAlgorithms),
                                          testing::Range(1U, 6U)),
                         NameOf);

// Three members, of which the first has two ranks that are no neighbours.
TEST(GoldenMoves, ArePrintedAsReviewed) {
  for (const Collective collective : kMoves) {
    const Layout layout = {
        .collective = collective, .elements = 8, .root = 1, .peer = 2, .placement = Dealt(4, 3)};
    for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect, Algorithm::kTree}) {
      if (IsAvailable(collective, algorithm) &&
          !(HasBlocks(collective) && algorithm == Algorithm::kTree)) {
        ExpectGolden(std::string(Name(collective)) + "_" + std::string(Name(algorithm)),
                     Print(MakeSchedules(algorithm, ShapeOf(layout, 3, 4))));
      }
    }
  }
}

}  // namespace
}  // namespace maypole::collective
