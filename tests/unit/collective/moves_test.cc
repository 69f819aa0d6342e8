// The makers of every collective but all-reduce: right for every small shape, with the bytes and
// rounds that the model counts.

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "collective/cost.h"
#include "collective/simulate.h"
#include "collective/verify.h"
#include "tests/unit/collective/layouts.h"
#include "tests/unit/collective/traffic.h"

namespace maypole::collective {
namespace {

constexpr std::array kMakers = {Algorithm::kRing, Algorithm::kDirect, Algorithm::kTree};

class EveryMove : public testing::TestWithParam<Collective> {
 protected:
  static std::vector<Algorithm> Algorithms() {
    std::vector<Algorithm> all;
    std::copy_if(kMakers.begin(), kMakers.end(), std::back_inserter(all), [](Algorithm algorithm) {
      return IsAvailable(GetParam(), algorithm);
    });
    return all;
  }

  static std::string ProblemOf(const Layout& layout, std::uint32_t members, ElementCount slice) {
    const Shape shape = ShapeOf(layout, members, slice);
    for (const Algorithm algorithm : Algorithms()) {
      const Verdict verdict = VerifySchedules(MakeSchedules(algorithm, shape), shape.parts);
      if (!verdict.ok) {
        return std::string(Name(algorithm)) + ": " + verdict.problem;
      }
    }
    return "";
  }

  static Layout LayoutOf(std::uint32_t ranks, std::uint32_t members, ElementCount block) {
    return {.collective = GetParam(),
            .elements = block * ranks,
            .peer = ranks - 1,
            .placement = Dealt(ranks, members)};
  }
};

TEST_P(EveryMove, IsRightForEveryNumberOfMembersAndBlockSize) {
  for (std::uint32_t members = 1; members <= 17; ++members) {
    for (ElementCount block = 0; block <= 5; ++block) {
      ASSERT_EQ(ProblemOf(LayoutOf(members, members, block), members, 2), "")
          << members << " members, blocks of " << block;
    }
  }
}

TEST_P(EveryMove, IsRightForEveryRootAndPeer) {
  for (std::uint32_t members = 1; members <= 9; ++members) {
    for (std::uint32_t root = 0; HasRoot(GetParam()) && root < members; ++root) {
      for (std::uint32_t peer = 0; peer < members; ++peer) {
        Layout layout = LayoutOf(members, members, 1);
        layout.root = root;
        layout.peer = peer;
        ASSERT_EQ(ProblemOf(layout, members, 2), "")
            << members << " members, " << root << " to " << peer;
      }
    }
  }
}

TEST_P(EveryMove, IsRightWhereMembersHaveSeveralRanksThatAreNoNeighbours) {
  for (std::uint32_t members = 1; members <= 6; ++members) {
    for (std::uint32_t ranks = members; ranks <= 3 * members; ++ranks) {
      ASSERT_EQ(ProblemOf(LayoutOf(ranks, members, 3), members, 2), "")
          << ranks << " ranks on " << members << " members";
    }
  }
}

TEST_P(EveryMove, IsRightForUnevenBlocksOfWhichSomeAreEmpty) {
  if (!HasCounts(GetParam())) {
    return;
  }
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 200; ++round) {
    const auto members = static_cast<std::uint32_t>(1 + random() % 8);
    const auto ranks = static_cast<std::uint32_t>(members + random() % 8);
    Layout layout = LayoutOf(ranks, members, 0);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      layout.counts.push_back(random() % 3 == 0 ? 0 : random() % 9);
      layout.elements += layout.counts.back();
    }
    ASSERT_EQ(ProblemOf(layout, members, 1 + random() % 4), "");
  }
}

TEST_P(EveryMove, IsRightBeyond32Bits) {
  EXPECT_EQ(ProblemOf(LayoutOf(3, 3, (ElementCount{1} << 33) + 7), 3, ElementCount{1} << 31), "");
}

// As for all-reduce: whatever step or wait is left out, the verifier sees it.
TEST_P(EveryMove, IsWrongWithoutAnyOfItsSteps) {
  const Shape shape = ShapeOf(LayoutOf(4, 4, 2), 4, 2);
  for (const Algorithm algorithm : Algorithms()) {
    const auto right = MakeSchedules(algorithm, shape);
    for (std::size_t member = 0; member < right.size(); ++member) {
      for (StepIndex left_out = 0; left_out < right[member].steps.size(); ++left_out) {
        auto schedules = right;
        auto& steps = schedules[member].steps;
        steps.erase(steps.begin() + left_out);
        for (Step& step : steps) {
          for (StepIndex& before : step.after) {
            before = before == left_out ? kNoStep
                                        : before - (before != kNoStep && before > left_out ? 1 : 0);
          }
        }
        EXPECT_FALSE(VerifySchedules(schedules, shape.parts).ok)
            << Name(algorithm) << " without step " << left_out << " of member " << member;
      }
    }
  }
}

TEST_P(EveryMove, IsWrongWithoutAnyOfItsWaits) {
  const Shape shape = ShapeOf(LayoutOf(4, 4, 2), 4, 2);
  for (const Algorithm algorithm : Algorithms()) {
    auto schedules = MakeSchedules(algorithm, shape);
    for (Schedule& schedule : schedules) {
      for (Step& step : schedule.steps) {
        if (step.after[0] == kNoStep) {
          continue;
        }
        const auto after = std::exchange(step.after, {kNoStep, kNoStep});
        EXPECT_FALSE(VerifySchedules(schedules, shape.parts).ok) << Name(algorithm);
        step.after = after;
      }
    }
  }
}

TEST_P(EveryMove, CostsTheRoundsAndBytesOfTheModel) {
  constexpr LinkModel kLink = {.latency_seconds = 5e-6, .bytes_per_second = 25e9 / 8};
  const bool has_blocks = HasBlocks(GetParam());
  for (const Algorithm algorithm : Algorithms()) {
    if (has_blocks && algorithm == Algorithm::kTree) {
      continue;  // the model has no formula for it
    }
    for (std::uint32_t members = 2; members <= 17; ++members) {
      SCOPED_TRACE(testing::Message() << Name(algorithm) << " of " << members);
      const auto schedules =
          MakeSchedules(algorithm, ShapeOf(LayoutOf(members, members, 16), members, 1 << 17));
      const Simulation simulation = Simulate(schedules, {.link = kLink});
      const Cost cost = Predict(GetParam(), algorithm, 64 * members, members, kLink);
      EXPECT_EQ(simulation.rounds, cost.rounds);
      const auto sent =
          *std::max_element(simulation.bytes_sent.begin(), simulation.bytes_sent.end());
      const auto received =
          *std::max_element(simulation.bytes_received.begin(), simulation.bytes_received.end());
      EXPECT_EQ(std::max(sent, received), cost.bytes_sent);
    }
  }
}

TEST_P(EveryMove, TakesAboutTheTimeOfTheModel) {
  constexpr LinkModel kLink = {.latency_seconds = 5e-6, .bytes_per_second = 25e9 / 8};
  for (const Algorithm algorithm : Algorithms()) {
    if (HasBlocks(GetParam()) && algorithm == Algorithm::kTree) {
      continue;
    }
    for (const std::uint32_t members : {2U, 3U, 4U, 8U, 13U, 32U}) {
      for (const ElementCount block : {64U, 4096U, 1U << 17}) {
        const Layout layout = LayoutOf(members, members, block);
        const auto schedules = MakeSchedules(algorithm, ShapeOf(layout, members, 1 << 17));
        const double predicted =
            Predict(GetParam(), algorithm, layout.elements * 4, members, kLink).seconds;
        EXPECT_NEAR(
            Simulate(schedules, {.link = kLink}, {.window = 64}).seconds / predicted, 1, 0.15)
            << Name(algorithm) << " of " << members << ", blocks of " << block;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryMove, testing::ValuesIn(kMoves), [](const auto& collective) {
  return std::string(Name(collective.param));
});

TEST(Broadcast, BringsEveryByteToEachMemberOnce) {
  for (const Algorithm algorithm : kMakers) {
    const Layout layout = {
        .collective = Collective::kBroadcast, .elements = 1000, .root = 2, .placement = OneEach(7)};
    for (const Schedule& schedule : MakeSchedules(algorithm, ShapeOf(layout, 7, 64))) {
      EXPECT_EQ(TrafficOf(schedule).received, schedule.self == Member(2) ? 0U : 1000U);
    }
  }
}

TEST(Reduce, ByTreeOrDirectSumsAllElementsAlike) {
  const Layout layout = {
      .collective = Collective::kReduce, .elements = 100, .root = 1, .placement = OneEach(5)};
  const Shape shape = ShapeOf(layout, 5, 8);
  const auto direct = VerifySchedules(MakeSchedules(Algorithm::kDirect, shape), shape.parts);
  EXPECT_EQ(direct.sums, (std::vector<SumOrder>{{{0, 100}, "((((0+1)+2)+3)+4)"}}));
  const auto tree = VerifySchedules(MakeSchedules(Algorithm::kTree, shape), shape.parts);
  EXPECT_EQ(tree.sums.size(), 1U);
}

TEST(ReduceScatter, MayNotWriteWhatIsForAnother) {
  const Layout layout = {
      .collective = Collective::kReduceScatter, .elements = 2, .placement = OneEach(2)};
  const Shape shape = ShapeOf(layout, 2, 2);
  const auto problem =
      VerifySchedules(MakeSchedules(Algorithm::kDirect, {.members = 2, .elements = 2}), shape.parts)
          .problem;
  EXPECT_NE(problem.find("is for member"), std::string::npos) << problem;
}

TEST(AllGather, MayNotSumWhatIsFinishedAsItIs) {
  const Layout layout = {
      .collective = Collective::kAllGather, .elements = 2, .placement = OneEach(2)};
  const Shape shape = ShapeOf(layout, 2, 2);
  const auto problem =
      VerifySchedules(MakeSchedules(Algorithm::kDirect, {.members = 2, .elements = 2}), shape.parts)
          .problem;
  EXPECT_NE(problem.find("takes finished elements"), std::string::npos) << problem;
}

}  // namespace
}  // namespace maypole::collective
