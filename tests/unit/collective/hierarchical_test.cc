#include "collective/hierarchical.h"

#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/make.h"
#include "collective/phases.h"
#include "collective/verify.h"
#include "tests/unit/collective/algorithms.h"
#include "tests/unit/collective/traffic.h"

namespace maypole::collective {
namespace {

using testing::HasSubstr;

constexpr Algorithm kInside[] = {Algorithm::kRing,
                                 Algorithm::kDirect,
                                 Algorithm::kTree,
                                 Algorithm::kDoubleTree,
                                 Algorithm::kHalvingDoubling};

void ExpectRight(const Shape& shape) {
  const auto verdict = VerifySchedules(MakeSchedules(Algorithm::kHierarchical, shape));
  ASSERT_TRUE(verdict.ok) << verdict.problem;
}

std::string Described(const std::vector<Level>& levels) {
  std::string text;
  for (const Level& level : levels) {
    text += std::string(Name(level.algorithm)) + testing::PrintToString(level.groups) + " ";
  }
  return text;
}

// Every way to cut `members` into two groups, and every pair of algorithms.
TEST(HierarchicalSchedule, IsRightForEverySmallPairOfGroups) {
  for (std::uint32_t members = 2; members <= 17; ++members) {
    for (std::uint32_t first = 1; first < members; ++first) {
      for (const Algorithm inside : kInside) {
        for (const Algorithm across : kInside) {
          const std::vector<Level> levels = {{{first, members - first}, inside}, {{2}, across}};
          SCOPED_TRACE(Described(levels));
          ExpectRight({.members = members,
                       .elements = (first % 3) * members + 1,
                       .slice_elements = 2,
                       .levels = levels});
        }
      }
    }
  }
}

std::vector<std::uint32_t> RandomGroups(std::mt19937_64& random, std::uint32_t nodes) {
  std::vector<std::uint32_t> groups;
  while (nodes > 0) {
    const auto size = static_cast<std::uint32_t>(1 + random() % std::min(nodes, 9U));
    groups.push_back(size);
    nodes -= size;
  }
  return groups;
}

TEST(HierarchicalSchedule, IsRightForRandomUnevenHierarchies) {
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 150; ++round) {
    Shape shape = {.members = static_cast<std::uint32_t>(1 + random() % 64),
                   .elements = random() % 2000};
    shape.slice_elements = 1 + shape.elements / (1 + random() % 30);
    std::uint32_t nodes = shape.members;
    const std::size_t most_levels = 1 + random() % 4;
    while (shape.levels.empty() || nodes > 1) {
      Level& level = shape.levels.emplace_back();
      level.algorithm = kInside[random() % std::size(kInside)];
      level.groups = shape.levels.size() == most_levels ? std::vector<std::uint32_t>{nodes}
                                                        : RandomGroups(random, nodes);
      nodes = static_cast<std::uint32_t>(level.groups.size());
    }
    SCOPED_TRACE(testing::Message() << Described(shape.levels) << shape.elements << " elements");
    ASSERT_EQ(HierarchyProblem(shape), "");
    ExpectRight(shape);
  }
}

TEST(HierarchicalSchedule, OfOneLevelIsTheAlgorithmItself) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kHalvingDoubling}) {
    const Shape shape = {.members = 6,
                         .self = Member(2),
                         .elements = 50,
                         .slice_elements = 3,
                         .levels = {{{6}, algorithm}}};
    const Schedule flat = MakeSchedule(algorithm, shape);
    const Schedule level = MakeSchedule(Algorithm::kHierarchical, shape);
    ASSERT_EQ(flat.steps.size(), level.steps.size());
    for (std::size_t i = 0; i < flat.steps.size(); ++i) {
      EXPECT_EQ(flat.steps[i].kind, level.steps[i].kind);
      EXPECT_EQ(flat.steps[i].range, level.steps[i].range);
      EXPECT_EQ(flat.steps[i].after, level.steps[i].after);
    }
  }
}

TEST(HierarchicalSchedule, Of8Times8SendsAcrossOnlyItsEighth) {
  const ElementCount elements = 64 * 100;
  const Shape shape = {.members = 64,
                       .elements = elements,
                       .levels = EvenLevels({8, 8}, {Algorithm::kRing, Algorithm::kRing})};
  for (const Schedule& schedule : MakeSchedules(Algorithm::kHierarchical, shape)) {
    ElementCount inside = 0;
    ElementCount across = 0;
    for (const Step& step : schedule.steps) {
      if (step.kind == StepKind::kSend) {
        const bool same = step.peer.value() / 8 == schedule.self.value() / 8;
        (same ? inside : across) += step.range.size();
      }
    }
    EXPECT_EQ(inside, 2 * elements * 7 / 8);
    EXPECT_EQ(across, 2 * elements / 8 * 7 / 8);
  }
}

TEST(Hierarchy, IsRefusedWithTheValueThatDoesNotFit) {
  const auto problem = [](std::vector<Level> levels) {
    return HierarchyProblem({.members = 6, .levels = std::move(levels)});
  };
  EXPECT_EQ(problem({{{4, 2}, Algorithm::kRing}, {{2}, Algorithm::kTree}}), "");
  EXPECT_THAT(problem({}), HasSubstr("no levels"));
  EXPECT_THAT(problem({{{4, 3}, Algorithm::kRing}}), HasSubstr("groups 7 instead of 6"));
  EXPECT_THAT(problem({{{4, 2}, Algorithm::kRing}}), HasSubstr("2 groups"));
  EXPECT_THAT(problem({{{6, 0}, Algorithm::kRing}}), HasSubstr("empty group"));
  EXPECT_THAT(problem({{{6}, Algorithm::kNaive}}), HasSubstr("uses naive"));
  EXPECT_THAT(problem({{{4, 2}, Algorithm::kRing}, {{3}, Algorithm::kTree}}),
              HasSubstr("level 1 of the hierarchy groups 3 instead of 2"));
}

TEST(HierarchicalSchedule, OfOneMemberOrNoElementsIsTrivial) {
  const Shape lone = {
      .members = 1, .elements = 5, .levels = {{{1}, Algorithm::kRing}, {{1}, Algorithm::kTree}}};
  EXPECT_EQ(MakeHierarchicalAllReduce(lone).steps.size(), 1U);
  const Shape empty = {.members = 4, .levels = EvenLevels({2, 2}, {kInside[0], kInside[2]})};
  EXPECT_TRUE(MakeHierarchicalAllReduce(empty).steps.empty());
}

}  // namespace
}  // namespace maypole::collective
