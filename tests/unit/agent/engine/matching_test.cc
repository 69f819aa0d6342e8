#include "agent/engine/matching.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maypole::agent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<Rank> Ranks(std::initializer_list<std::uint32_t> numbers) {
  std::vector<Rank> ranks;
  for (const std::uint32_t number : numbers) {
    ranks.emplace_back(number);
  }
  return ranks;
}

OpShape Shape() {
  return {.collective = 0,
          .dtype = DType::kF32,
          .reduction = Reduction::kSum,
          .algorithm = 0,
          .elements = 100};
}

std::vector<std::optional<Announce>> TwoMembers(OpShape first, OpShape second) {
  return {Announce{"layer1", 2, 4096, {{first, Ranks({0, 1})}}},
          Announce{"layer1", 2, 4096, {{second, Ranks({2, 3})}}}};
}

TEST(MatchingTest, FormatsRanksForPeople) {
  EXPECT_EQ(FormatRanks(Ranks({3})), "rank 3");
  EXPECT_EQ(FormatRanks(Ranks({1, 0})), "ranks 0, 1");
  EXPECT_EQ(FormatRanks(Ranks({5, 2, 0, 1})), "ranks 0-2, 5");
  EXPECT_EQ(FormatRanks(Ranks({0, 2, 3, 4, 7, 8})), "ranks 0, 2-4, 7, 8");
}

TEST(MatchingTest, ListsRanksForPrograms) {
  EXPECT_EQ(ListRanks(Ranks({5, 2, 0})), "ranks=0,2,5");
  EXPECT_EQ(ListRanks(Ranks({13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0})),
            "ranks=0,1,2,3,4,5,6,7,8,9,10,11");
}

TEST(MatchingTest, HashIsThatOfFnv1a) {
  EXPECT_EQ(HashName(""), 0x4bf29ce484222325);
  EXPECT_EQ(HashName("a"), 0x2f63dc4c8601ec8c);
}

TEST(MatchingTest, EqualAnnouncesAgree) {
  EXPECT_FALSE(FindMismatch(0, TwoMembers(Shape(), Shape())));
}

TEST(MatchingTest, RefusalNamesOpFieldAndBothGroupsWithTheirValues) {
  OpShape other = Shape();
  other.elements = 101;
  const auto refusal = FindMismatch(7, TwoMembers(Shape(), other));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, ErrorCode::kMismatch);
  EXPECT_EQ(refusal->text,
            "all_reduce \"layer1\" #7 was refused before any byte moved: the ranks disagree on "
            "count: ranks 0, 1 have 100, ranks 2, 3 have 101");
}

TEST(MatchingTest, EveryFieldIsCompared) {
  const auto text_with = [](auto change) {
    auto announces = TwoMembers(Shape(), Shape());
    change(*announces[1]);
    const auto refusal = FindMismatch(0, announces);
    return refusal ? refusal->text : std::string("agreed");
  };
  const auto shape = [](Announce& a) -> OpShape& { return a.groups[0].shape; };
  EXPECT_THAT(text_with([&](Announce& a) { shape(a).dtype = DType::kF16; }),
              HasSubstr("dtype: ranks 0, 1 have f32, ranks 2, 3 have f16"));
  EXPECT_THAT(text_with([&](Announce& a) { shape(a).reduction = Reduction::kMax; }),
              HasSubstr("reduction: ranks 0, 1 have sum, ranks 2, 3 have max"));
  EXPECT_THAT(text_with([&](Announce& a) { shape(a).algorithm = 1; }),
              HasSubstr("algorithm: ranks 0, 1 have auto, ranks 2, 3 have ring"));
  EXPECT_THAT(text_with([&](Announce& a) { shape(a).collective = 1; }),
              HasSubstr("collective: ranks 0, 1 have all_reduce, ranks 2, 3 have barrier"));
  EXPECT_EQ(text_with([&](Announce& a) { a.slice_bytes = 1; }), "agreed") << "the first decides";
  EXPECT_THAT(text_with([&](Announce& a) { a.name = "layer2"; }), HasSubstr("name: "));
}

TEST(MatchingTest, OnlyWhatDiffersIsNamed) {
  OpShape other = Shape();
  other.elements = 101;
  other.dtype = DType::kI8;
  const std::string text = FindMismatch(0, TwoMembers(Shape(), other))->text;
  EXPECT_THAT(text, HasSubstr("dtype: "));
  EXPECT_THAT(text, HasSubstr("; count: "));
  EXPECT_THAT(text, Not(HasSubstr("reduction")));
}

TEST(MatchingTest, ADifferenceWithinOneAgentIsFoundToo) {
  OpShape other = Shape();
  other.elements = 5;
  const std::vector<std::optional<Announce>> announces = {
      Announce{"x", 2, 4096, {{Shape(), Ranks({0, 2})}, {other, Ranks({1})}}}};
  EXPECT_THAT(FindMismatch(0, announces)->text, HasSubstr("ranks 0, 2 have 100, rank 1 has 5"));
}

TEST(MatchingTest, GroupsOfSeveralMembersWithTheSameValueAreOne) {
  OpShape other = Shape();
  other.elements = 5;
  const std::vector<std::optional<Announce>> announces = {
      Announce{"x", 2, 4096, {{other, Ranks({4})}}},
      Announce{"x", 2, 4096, {{Shape(), Ranks({0, 1})}}},
      Announce{"x", 2, 4096, {{Shape(), Ranks({2})}, {other, Ranks({3})}}}};
  EXPECT_THAT(FindMismatch(0, announces)->text, HasSubstr("ranks 0-2 have 100, ranks 3, 4 have 5"));
}

TEST(MatchingTest, TheCulpritsAreWhoeverDoesNotAgreeWithMost) {
  OpShape other = Shape();
  other.elements = 5;
  OpShape third = Shape();
  third.dtype = DType::kI8;
  std::vector<std::optional<Announce>> announces = {
      Announce{"x", 2, 4096, {{other, Ranks({4})}}},
      std::nullopt,
      Announce{"x", 2, 4096, {{Shape(), Ranks({0, 1})}, {third, Ranks({3})}}}};
  EXPECT_EQ(FindMismatch(0, announces)->culprits, "ranks=3,4");
  announces.push_back(Announce{"x", 2, 4096, {{other, Ranks({5})}}});
  EXPECT_EQ(FindMismatch(0, announces)->culprits, "");  // two against two
}

Submission Send(std::uint32_t from, std::uint32_t to) {
  Submission submission;
  submission.name = "x";
  submission.collective = collective::Collective::kSendReceive;
  submission.root = Rank(from);
  submission.peer = Rank(to);
  return submission;
}

TEST(MatchingTest, NamesOfDifferentPairsAndOfAllDoNotClash) {
  Submission all;
  all.name = "x";
  EXPECT_EQ(HashOf(all), HashName("x"));
  EXPECT_EQ(HashOf(all) & kPairBit, 0u);
  EXPECT_EQ(HashOf(Send(0, 1)), HashOf(Send(0, 1)));
  EXPECT_NE(HashOf(Send(0, 1)), HashOf(Send(1, 0)));
  EXPECT_NE(HashOf(Send(0, 1)), HashOf(Send(0, 2)));
  EXPECT_NE(HashOf(Send(0, 1)) & kPairBit, 0u);
}

TEST(MatchingTest, ADifferentRootAndDifferentBlocksAreNamed) {
  OpShape other = Shape();
  other.root = 3;
  EXPECT_THAT(FindMismatch(0, TwoMembers(Shape(), other))->text,
              HasSubstr("root: ranks 0, 1 have 0, ranks 2, 3 have 3"));
  other = Shape();
  other.counts = 0xabc;
  EXPECT_THAT(FindMismatch(0, TwoMembers(Shape(), other))->text,
              HasSubstr("blocks: ranks 0, 1 have equal blocks, ranks 2, 3 have counts "
                        "0000000000000abc (hash)"));
}

TEST(MatchingTest, TheFirstBlockThatDiffersIsNamedWithAllItsSizes) {
  Submission gather;
  gather.collective = collective::Collective::kAllGather;
  gather.elements = 12;
  const auto group = [&](std::vector<ElementCount> counts,
                         std::initializer_list<std::uint32_t> ranks) {
    gather.counts = std::move(counts);
    AnnounceGroup made = GroupOf(gather);
    made.ranks = Ranks(ranks);
    return made;
  };
  std::vector<std::optional<Announce>> announces = {
      Announce{"x", 2, 4096, {group({3, 3, 1, 5}, {0, 3}), group({3, 3, 2, 4}, {1})}},
      Announce{"x", 2, 4096, {group({}, {2})}}};
  EXPECT_THAT(FindMismatch(0, announces)->text,
              HasSubstr("blocks: ranks 0, 3 have 1 for rank 2, rank 1 has 2 for rank 2, rank 2 has "
                        "3 for rank 2"));
  std::vector<ElementCount> many(kAnnounceBlocksMax + 6, 0);
  many.back() = 12;
  EXPECT_EQ(group(many, {0}).blocks.size(), kAnnounceBlocksMax);
  announces = {Announce{"x", 2, 4096, {group(many, {0})}}, Announce{"x", 2, 4096, {}}};
  std::swap(many[kAnnounceBlocksMax], many.back());
  announces[1]->groups = {group(many, {1})};
  EXPECT_THAT(FindMismatch(0, announces)->text,
              AllOf(HasSubstr("blocks: rank 0 has counts "), HasSubstr(" (hash), rank 1 has ")));
}

TEST(MatchingTest, BlocksThatAreEqualMatchWhetherTheyWereCountedOrNot) {
  Submission counted;
  counted.collective = collective::Collective::kAllGather;
  counted.elements = 6;
  Submission plain = counted;
  counted.counts = {3, 3};
  EXPECT_EQ(ShapeOf(counted), ShapeOf(plain));
  counted.counts = {2, 4};
  EXPECT_NE(ShapeOf(counted), ShapeOf(plain));
}

TEST(MatchingTest, WhereNothingIsReducedTheReductionDoesNotMatter) {
  Submission gather;
  gather.collective = collective::Collective::kAllGather;
  Submission other = gather;
  other.reduction = Reduction::kMax;
  EXPECT_EQ(ShapeOf(gather), ShapeOf(other));
}

TEST(MatchingTest, OnlyAnnouncesOfMembersThatTakePartAreCompared) {
  OpShape other = Shape();
  other.elements = 5;
  std::vector<std::optional<Announce>> announces = TwoMembers(Shape(), other);
  announces.insert(announces.begin(), std::nullopt);
  EXPECT_THAT(FindMismatch(0, announces)->text, HasSubstr("count: "));
  announces.pop_back();
  EXPECT_FALSE(FindMismatch(0, announces));
}

TEST(MatchingTest, RanksThatTheJobHasNotAreRefusedWithTheirNumber) {
  EXPECT_TRUE(CheckRanks(Send(0, 1), Rank(0), 2).ok());
  EXPECT_THAT(CheckRanks(Send(0, 2), Rank(0), 2).text, HasSubstr("rank 2 is no rank"));
  EXPECT_THAT(CheckRanks(Send(2, 0), Rank(0), 2).text, HasSubstr("ranks are 0 to 1"));
  EXPECT_FALSE(CheckRanks(Send(1, 1), Rank(1), 2).ok());
  EXPECT_THAT(CheckRanks(Send(0, 1), Rank(2), 3).text, HasSubstr("rank 2"));
  Submission blocks;
  blocks.collective = collective::Collective::kReduceScatter;
  blocks.elements = 5;
  EXPECT_THAT(CheckRanks(blocks, Rank(0), 2).text,
              AllOf(HasSubstr("count 5"), HasSubstr("world size 2"), HasSubstr("give counts")));
  blocks.counts = {1, 2, 2};
  EXPECT_THAT(CheckRanks(blocks, Rank(0), 2).text, HasSubstr("3 counts were given for 2 ranks"));
  EXPECT_TRUE(CheckRanks(blocks, Rank(0), 3).ok());
}

}  // namespace
}  // namespace maypole::agent
