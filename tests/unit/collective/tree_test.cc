#include "collective/tree.h"

#include <algorithm>
#include <bit>

#include <gtest/gtest.h>

#include "collective/make.h"
#include "collective/verify.h"
#include "tests/unit/collective/traffic.h"

namespace maypole::collective {
namespace {

constexpr TreeKind kKinds[] = {TreeKind::kFirst, TreeKind::kSecond};

std::uint32_t DepthOf(TreeKind kind, std::uint32_t size, std::uint32_t index) {
  std::uint32_t depth = 0;
  for (TreePlace place = PlaceInTree(kind, size, index); place.parent && depth <= size;
       place = PlaceInTree(kind, size, *place.parent)) {
    ++depth;
  }
  return depth;
}

TEST(Tree, HasOneRootAndChildrenWhoKnowTheirParent) {
  for (const TreeKind kind : kKinds) {
    for (std::uint32_t size = 1; size <= 130; ++size) {
      std::uint32_t children = 0;
      for (std::uint32_t index = 0; index < size; ++index) {
        const TreePlace place = PlaceInTree(kind, size, index);
        EXPECT_EQ(place.parent.has_value(), index != RootOfTree(kind, size));
        EXPECT_LE(place.children.size(), 2U);
        for (const std::uint32_t child : place.children) {
          ASSERT_LT(child, size);
          EXPECT_EQ(PlaceInTree(kind, size, child).parent, index);
          ++children;
        }
      }
      EXPECT_EQ(children, size - 1);
    }
  }
}

TEST(Tree, IsAsDeepAsTheLogarithmOfItsSize) {
  for (const TreeKind kind : kKinds) {
    for (std::uint32_t size = 1; size <= 130; ++size) {
      std::uint32_t depth = 0;
      for (std::uint32_t index = 0; index < size; ++index) {
        depth = std::max(depth, DepthOf(kind, size, index));
      }
      EXPECT_EQ(depth, static_cast<std::uint32_t>(std::bit_width(size - 1))) << size;
    }
  }
}

TEST(DoubleTree, GivesNobodyMoreThanTwoChildrenInBothTreesTogether) {
  for (std::uint32_t size = 1; size <= 130; ++size) {
    for (std::uint32_t index = 0; index < size; ++index) {
      EXPECT_LE(PlaceInTree(TreeKind::kFirst, size, index).children.size() +
                    PlaceInTree(TreeKind::kSecond, size, index).children.size(),
                2U)
          << index << " of " << size;
    }
  }
}

TEST(TreeSchedule, MovesAtMostThreeTensorsAndADoubleTreeTwo) {
  for (const auto& [algorithm, most] :
       {std::pair(Algorithm::kTree, 3U), std::pair(Algorithm::kDoubleTree, 2U)}) {
    for (const std::uint32_t members : {4U, 5U, 8U, 13U, 16U, 17U}) {
      Traffic worst;
      for (const Schedule& schedule : MakeSchedules(
               algorithm, {.members = members, .elements = 1000, .slice_elements = 100})) {
        worst.sent = std::max(worst.sent, TrafficOf(schedule).sent);
        worst.received = std::max(worst.received, TrafficOf(schedule).received);
      }
      EXPECT_EQ(worst, (Traffic{most * 1000, most * 1000})) << members;
    }
  }
}

TEST(TreeSchedule, SumsEveryElementAlikeWhateverTheSize) {
  for (const ElementCount elements : {1U, 7U, 64U}) {
    const auto verdict = VerifySchedules(
        MakeSchedules(Algorithm::kTree, {.members = 5, .elements = elements, .slice_elements = 3}));
    ASSERT_TRUE(verdict.ok) << verdict.problem;
    EXPECT_EQ(verdict.sums, (std::vector<SumOrder>{{{0, elements}, "(0+(((1+2)+3)+4))"}}));
  }
}

TEST(DoubleTreeSchedule, SumsEachHalfInItsOwnTree) {
  const auto verdict =
      VerifySchedules(MakeSchedules(Algorithm::kDoubleTree, {.members = 4, .elements = 8}));
  ASSERT_TRUE(verdict.ok) << verdict.problem;
  EXPECT_EQ(verdict.sums,
            (std::vector<SumOrder>{{{0, 4}, "(0+((1+2)+3))"}, {{4, 8}, "((0+(1+2))+3)"}}));
}

TEST(TreeSchedule, OfNoElementsHasNoSteps) {
  EXPECT_TRUE(MakeTreeAllReduce({.members = 4, .elements = 0}).steps.empty());
  EXPECT_TRUE(MakeDoubleTreeAllReduce({.members = 1, .elements = 0}).steps.empty());
}

}  // namespace
}  // namespace maypole::collective
