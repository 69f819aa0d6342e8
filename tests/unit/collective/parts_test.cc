#include "collective/parts.h"

#include <gtest/gtest.h>

#include "tests/unit/collective/layouts.h"

namespace maypole::collective {
namespace {

TEST(Parts, OfAReduceScatterAreTheBlocksOfTheRanksThatGetTheirSum) {
  const Layout layout = {
      .collective = Collective::kReduceScatter, .elements = 6, .placement = OneEach(3)};
  const auto parts = PartsOf(layout);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[1], (Part{.range = {2, 4}, .to = 1, .input_begin = 2, .output_begin = 2}));
}

TEST(Parts, FollowTheCountsAndLeaveOutEmptyBlocks) {
  const Layout layout = {.collective = Collective::kAllGather,
                         .elements = 7,
                         .counts = {4, 0, 3},
                         .placement = OneEach(3)};
  const auto parts = PartsOf(layout);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].range, (ElementRange{0, 4}));
  EXPECT_EQ(parts[1].range, (ElementRange{4, 7}));
  EXPECT_EQ(parts[1].from, 2U);
  EXPECT_TRUE(parts[1].GoesTo(0));
  EXPECT_FALSE(parts[1].ComesFrom(0));
}

TEST(Parts, OfAnAllToAllSwapRowsAndColumns) {
  const Layout layout = {
      .collective = Collective::kAllToAll, .elements = 6, .placement = OneEach(3)};
  EXPECT_EQ(SpaceOf(layout), 18U);
  const Part part = PartAt(PartsOf(layout), 11);  // rank 1's last block
  EXPECT_EQ(part.range, (ElementRange{10, 12}));
  EXPECT_EQ(part.from, 1U);
  EXPECT_EQ(part.to, 2U);
  EXPECT_EQ(part.input_begin, 4U);
  EXPECT_EQ(part.output_begin, 2U);
}

TEST(Parts, OfMembersKeepTheBordersOfRanks) {
  const Layout layout = {
      .collective = Collective::kReduceScatter, .elements = 8, .placement = Dealt(4, 2)};
  const auto parts = InMembers(PartsOf(layout), *layout.placement);
  ASSERT_EQ(parts.size(), 4U);
  EXPECT_EQ(parts[2].to, 0U);
  EXPECT_EQ(parts[3].to, 1U);
}

TEST(Parts, ThatConcernAMemberMakeTheSameScheduleAsAll) {
  for (const Collective collective : kMoves) {
    const Layout layout = {
        .collective = collective, .elements = 28, .peer = 5, .placement = Dealt(7, 3)};
    for (std::uint32_t member = 0; member < 3; ++member) {
      Shape all = {.members = 3, .self = Member(member), .elements = SpaceOf(layout)};
      Shape its = all;
      all.parts = InMembers(PartsOf(layout), *layout.placement);
      its.parts = InMembers(PartsAt(Member(member), layout), *layout.placement);
      EXPECT_TRUE(MakeSchedule(Algorithm::kDirect, its).steps ==
                  MakeSchedule(Algorithm::kDirect, all).steps);
    }
  }
}

TEST(Parts, OfManyRanksThatConcernAMemberAreFew) {
  constexpr std::uint32_t kRanks = 32768;
  const Layout layout = {.collective = Collective::kAllToAll,
                         .elements = kRanks,
                         .placement = Dealt(kRanks, kRanks / 8)};
  EXPECT_EQ(PartsAt(Member(7), layout).size(), 8U * kRanks + 8U * (kRanks - 8));
}

TEST(Parts, OfNoElementsAreNone) {
  for (const Collective collective : kMoves) {
    EXPECT_TRUE(PartsOf({.collective = collective, .peer = 1, .placement = OneEach(2)}).empty());
  }
}

}  // namespace
}  // namespace maypole::collective
