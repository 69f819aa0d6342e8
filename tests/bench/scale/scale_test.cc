#include "tests/bench/scale/scale.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/simulate.h"

namespace maypole::scale {
namespace {

constexpr std::uint64_t kKiB = 1 << 10;
constexpr std::uint64_t kMiB = 1 << 20;

class Scale : public testing::TestWithParam<Kind> {};

TEST_P(Scale, IsReportedAsItIsSimulated) {
  std::ifstream file(MAYPOLE_SCALE_REPORT);
  ASSERT_TRUE(file) << MAYPOLE_SCALE_REPORT << " does not exist";
  std::ostringstream report;
  report << file.rdbuf();
  std::string section = report.str();
  section.erase(0, section.find("## " + Name(GetParam()) + "\n"));
  EXPECT_THAT(section, testing::HasSubstr(Description(GetParam())));
  for (const std::uint32_t members : {2U, 8U, 64U}) {
    for (const std::uint64_t bytes : {4 * kKiB, 64 * kKiB, kMiB}) {
      const std::string line = Line(Measure(GetParam(), members, bytes));
      EXPECT_LT(section.find(line), section.find("\nThe automatic choice"))
          << "run tests/bench/scale/make: " << line;
    }
  }
}

TEST_P(Scale, TheAutomaticChoiceIsNearTheBest) {
  for (const std::uint32_t members : {2U, 3U, 6U, 8U, 16U, 32U, 64U, 256U}) {
    for (std::uint64_t bytes = 1 * kKiB; bytes <= 16 * kMiB; bytes *= 4) {
      const Cell cell = Measure(GetParam(), members, bytes);
      EXPECT_LE(cell.chosen_seconds, 1.25 * cell.BestSeconds()) << TableHead() << Line(cell);
    }
  }
}

TEST_P(Scale, NothingIsFasterThanTheBound) {
  for (const std::uint32_t members : {2U, 5U, 32U}) {
    const Cell cell = Measure(GetParam(), members, kMiB);
    EXPECT_GT(cell.BestSeconds(), cell.bound_seconds);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Scale, testing::ValuesIn(kKinds), [](const auto& made) {
  std::string name = Name(made.param);
  std::erase(name, ' ');
  return name;
});

TEST(LongTree, GoesOnAtTheSamePace) {
  constexpr std::uint32_t kMembers = 32;
  constexpr std::uint64_t kSlice = 64 * kKiB;
  constexpr std::uint64_t kBytes = 3 * kSimulatedSlices * kSlice;
  for (const Kind kind : kKinds) {
    for (const auto algorithm :
         {collective::Algorithm::kTree, collective::Algorithm::kDoubleTree}) {
      const double whole =
          SimulateAllReduce(algorithm,
                            {.members = kMembers, .elements = kBytes, .slice_elements = kSlice},
                            MakeNetwork(kind, kMembers),
                            {.window = 16, .accumulator_bytes = 1, .result_bytes = 1})
              .seconds;
      EXPECT_NEAR(SimulatedSeconds(kind, kMembers, kBytes, algorithm, kSlice) / whole, 1, 0.07)
          << Name(kind) << " " << collective::Name(algorithm);
    }
  }
}

}  // namespace
}  // namespace maypole::scale
