#include "proto/announce.h"

#include <random>

#include "gtest/gtest.h"
#include "proto/segment_layout.h"

namespace maypole {
namespace {

Announce Example() {
  return {.name = "layer1.weight",
          .algorithm = 1,
          .slice_bytes = 524288,
          .groups = {{.shape = {.collective = 0,
                                .dtype = DType::kBF16,
                                .reduction = Reduction::kMean,
                                .algorithm = 2,
                                .elements = (std::uint64_t{1} << 33) + 5},
                      .ranks = {Rank(0), Rank(3)},
                      .blocks = {1, std::uint64_t{1} << 33, 4}},
                     {.shape = {.collective = 1, .elements = 0}, .ranks = {Rank(7)}}}};
}

bool Same(const Announce& a, const Announce& b) {
  return a.name == b.name && a.algorithm == b.algorithm && a.slice_bytes == b.slice_bytes &&
         a.groups.size() == b.groups.size() &&
         std::equal(a.groups.begin(), a.groups.end(), b.groups.begin(), [](auto& x, auto& y) {
           return x.shape == y.shape && x.ranks == y.ranks && x.blocks == y.blocks;
         });
}

TEST(AnnounceTest, ComesBackAsItWasEncoded) {
  const auto decoded = DecodeAnnounce(EncodeAnnounce(Example()));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(Same(*decoded, Example()));
}

TEST(AnnounceTest, MayHaveNoName) {
  Announce unnamed = Example();
  unnamed.name.clear();
  const auto decoded = DecodeAnnounce(EncodeAnnounce(unnamed));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->name, "");
}

TEST(AnnounceTest, IsRefusedWhenCutShortAnywhere) {
  const auto bytes = EncodeAnnounce(Example());
  for (std::size_t count = 0; count < bytes.size(); ++count) {
    EXPECT_FALSE(DecodeAnnounce(std::span(bytes).first(count))) << count << " bytes";
  }
}

TEST(AnnounceTest, IsRefusedWithAByteTooMany) {
  auto bytes = EncodeAnnounce(Example());
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(DecodeAnnounce(bytes));
}

TEST(AnnounceTest, IsRefusedWithAnUnknownDTypeOrReductionOrWithoutRanks) {
  const auto bytes = EncodeAnnounce(Example());
  const std::size_t group = 2 + Example().name.size() + 1 + 4 + 2;
  for (const std::size_t offset : {group + 1, group + 2}) {
    auto changed = bytes;
    changed[offset] = std::byte{200};
    EXPECT_FALSE(DecodeAnnounce(changed)) << offset;
  }
  Announce nobody = Example();
  nobody.groups[1].ranks.clear();
  EXPECT_FALSE(DecodeAnnounce(EncodeAnnounce(nobody)));
}

TEST(AnnounceTest, IsRefusedWithANameThatIsTooLong) {
  Announce announce = Example();
  announce.name.assign(kNameBytesMax, 'x');
  EXPECT_TRUE(DecodeAnnounce(EncodeAnnounce(announce)));
  announce.name.push_back('x');
  EXPECT_FALSE(DecodeAnnounce(EncodeAnnounce(announce)));
}

TEST(AnnounceTest, IsRefusedWithMoreBlocksThanAreTold) {
  Announce announce = Example();
  announce.groups[0].blocks.assign(kAnnounceBlocksMax, 7);
  EXPECT_TRUE(DecodeAnnounce(EncodeAnnounce(announce)));
  announce.groups[0].blocks.push_back(7);
  EXPECT_FALSE(DecodeAnnounce(EncodeAnnounce(announce)));
}

TEST(AnnounceTest, ThatClaimsMoreRanksThanItHasBytesIsRefused) {
  auto bytes = EncodeAnnounce(Example());
  const std::size_t count = 2 + Example().name.size() + 1 + 4 + 2 + 28;
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[count + i] = std::byte{0xff};
  }
  EXPECT_FALSE(DecodeAnnounce(bytes));
}

TEST(AnnounceTest, WhateverIsDecodedFromChangedBytesEncodesToTheSameBytes) {
  std::mt19937 random(20);
  const auto original = EncodeAnnounce(Example());
  int decoded = 0;
  for (int i = 0; i < 20000; ++i) {
    auto bytes = original;
    for (std::uint32_t changes = random() % 4 + 1; changes > 0; --changes) {
      bytes[random() % bytes.size()] = std::byte(random());
    }
    if (const auto announce = DecodeAnnounce(bytes)) {
      ++decoded;
      EXPECT_EQ(EncodeAnnounce(*announce), bytes);
    }
  }
  EXPECT_GT(decoded, 100);
}

TEST(OutcomeTest, ComesBackAsItWasEncoded) {
  const Outcome outcome{ErrorCode::kPeerLost, "rank 3 was lost", "ranks=3;hosts=b"};
  EXPECT_EQ(DecodeOutcome(EncodeOutcome(outcome)), outcome);
}

TEST(OutcomeTest, IsRefusedWhenCutShortAnywhereOrTooLong) {
  auto bytes = EncodeOutcome({ErrorCode::kTimeout, "waited", "waiting_ranks=1"});
  for (std::size_t count = 0; count < bytes.size(); ++count) {
    EXPECT_FALSE(DecodeOutcome(std::span(bytes).first(count))) << count << " bytes";
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(DecodeOutcome(bytes));
}

TEST(OutcomeTest, OfSuccessOrAnUnknownCodeIsRefused) {
  auto bytes = EncodeOutcome({ErrorCode::kInternal, "text", ""});
  EXPECT_TRUE(DecodeOutcome(bytes));
  bytes[0] = std::byte{9};
  EXPECT_FALSE(DecodeOutcome(bytes));
  bytes[0] = std::byte{0};
  EXPECT_FALSE(DecodeOutcome(bytes));
}

TEST(OutcomeTest, CutsATextThatDoesNotFitItsCount) {
  const auto decoded =
      DecodeOutcome(EncodeOutcome({ErrorCode::kInternal, std::string(100000, 'x'), "c"}));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->text.size(), 0xffff);
  EXPECT_EQ(decoded->culprits, "c");
}

}  // namespace
}  // namespace maypole
