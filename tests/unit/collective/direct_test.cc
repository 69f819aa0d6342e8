#include "collective/direct.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "collective/make.h"
#include "collective/verify.h"
#include "tests/unit/collective/traffic.h"

namespace maypole::collective {
namespace {

std::string MemberOrder(std::uint32_t members) {
  std::string sum = "0";
  for (std::uint32_t member = 1; member < members; ++member) {
    sum = "(" + sum + "+" + std::to_string(member) + ")";
  }
  return sum;
}

TEST(DirectSchedule, SumsEveryElementInMemberOrderWhateverTheSize) {
  for (std::uint32_t members = 1; members <= 9; ++members) {
    for (const ElementCount elements : {1U, members, members + 1, 4 * members + 1}) {
      const auto verdict = VerifySchedules(MakeSchedules(
          Algorithm::kDirect, {.members = members, .elements = elements, .slice_elements = 2}));
      ASSERT_TRUE(verdict.ok) << verdict.problem;
      EXPECT_EQ(verdict.sums, (std::vector<SumOrder>{{{0, elements}, MemberOrder(members)}}));
    }
  }
}

// Naive beside it: both promise the same bits, wherever members stand in the ring.
TEST(DirectSchedule, SumsInAnyGivenOrderAsNaiveDoes) {
  for (std::uint32_t members = 2; members <= 6; ++members) {
    std::vector<Member> order;
    for (std::uint32_t member = 0; member < members; ++member) {
      order.emplace_back(member);
    }
    do {
      std::string sum = std::to_string(order[0].value());
      Member lowest = order[0];
      for (const Member next : std::span(order).subspan(1)) {
        // Of two operands the verifier names that with the lowest member first.
        const std::string added = std::to_string(next.value());
        sum = lowest < next ? "(" + sum + "+" + added + ")" : "(" + added + "+" + sum + ")";
        lowest = std::min(lowest, next);
      }
      for (const Algorithm algorithm : {Algorithm::kDirect, Algorithm::kNaive}) {
        const auto verdict = VerifySchedules(MakeSchedules(algorithm,
                                                           {.members = members,
                                                            .elements = 2 * members + 1,
                                                            .slice_elements = 2,
                                                            .sum_order = order}));
        ASSERT_TRUE(verdict.ok) << Name(algorithm) << " " << sum << ": " << verdict.problem;
        ASSERT_EQ(verdict.sums, (std::vector<SumOrder>{{{0, 2 * members + 1}, sum}}));
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(DirectSchedule, SendsExactlyTwoTimesPMinus1OverPWhereItDivides) {
  for (const std::uint32_t members : {1U, 2U, 3U, 5U, 8U, 17U}) {
    for (const Schedule& schedule :
         MakeSchedules(Algorithm::kDirect,
                       {.members = members, .elements = 640 * members, .slice_elements = 128})) {
      const ElementCount expected = 2 * (members - 1) * 640;
      EXPECT_EQ(TrafficOf(schedule), (Traffic{expected, expected}));
    }
  }
}

TEST(DirectSchedule, StartsEveryMemberAtAnotherPeer) {
  std::set<Member> first_peers;
  for (const Schedule& schedule :
       MakeSchedules(Algorithm::kDirect, {.members = 8, .elements = 64})) {
    ASSERT_EQ(schedule.steps.front().kind, StepKind::kSend);
    first_peers.insert(schedule.steps.front().peer);
  }
  EXPECT_EQ(first_peers.size(), 8U);
}

TEST(DirectSchedule, OfTwoMembersNeedsNoPartialSums) {
  for (const Schedule& schedule :
       MakeSchedules(Algorithm::kDirect, {.members = 2, .elements = 9, .slice_elements = 2})) {
    for (const Step& step : schedule.steps) {
      EXPECT_FALSE(step.kind != StepKind::kSend && step.target == Buffer::kPartial);
    }
  }
}

TEST(DirectSchedule, OfNoElementsHasNoSteps) {
  EXPECT_TRUE(MakeDirectAllReduce({.members = 1, .elements = 0}).steps.empty());
  EXPECT_TRUE(MakeDirectAllReduce({.members = 4, .elements = 0}).steps.empty());
}

}  // namespace
}  // namespace maypole::collective
