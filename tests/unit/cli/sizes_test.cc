#include "cli/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maypole::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ByteList, ARangeIsSteppedThroughAndEndsWithItsLastSize) {
  EXPECT_THAT(*ParseByteList("4KiB..64KiB", 4), ElementsAre(4096, 16384, 65536));
  EXPECT_THAT(*ParseByteList("4KiB..20KiB", 4), ElementsAre(4096, 16384, 20480));
  EXPECT_THAT(*ParseByteList("1MiB..1MiB", 2), ElementsAre(1048576));
}

TEST(ByteList, ARangeEndsAlsoWhereTheNextStepWouldOverflow) {
  constexpr std::uint64_t kMost = 8'000'000ULL << 40;
  const auto sizes = ParseByteList("4KiB..8000000TiB", 4);
  ASSERT_TRUE(sizes.ok());
  ASSERT_EQ(sizes->size(), 27U);
  EXPECT_EQ(sizes->at(25), 4096ULL << 50);
  EXPECT_EQ(sizes->back(), kMost);
  EXPECT_THAT(*ParseByteList("1..8000000TiB", 1U << 20),
              ElementsAre(1, 1 << 20, 1ULL << 40, 1ULL << 60, kMost));
}

TEST(ByteList, AListThatIsTooLongIsRefused) {
  std::string list = "1";
  for (std::size_t i = 1; i < kMostValues; ++i) {
    list += ",1";
  }
  EXPECT_EQ(ParseByteList(list, 4)->size(), kMostValues);
  EXPECT_THAT(std::string(ParseByteList(list + ",1", 4).status().message()),
              HasSubstr("at most 100"));
}

TEST(ByteList, AListKeepsItsOrderAndMayHoldZero) {
  EXPECT_THAT(*ParseByteList("25MiB,0,4096", 4), ElementsAre(26214400, 0, 4096));
}

TEST(ByteList, ARangeThatCannotBeSteppedThroughIsRefused) {
  EXPECT_FALSE(ParseByteList("0..4KiB", 4).ok());
  EXPECT_FALSE(ParseByteList("4KiB..8KiB", 1).ok());
  EXPECT_FALSE(ParseByteList("8KiB..4KiB", 2).ok());
  EXPECT_THAT(std::string(ParseByteList("4KiB,large", 2).status().message()), HasSubstr("large"));
}

TEST(ClusterShape, IsNodesTimesRanks) {
  const absl::StatusOr<ClusterShape> shape = ParseClusterShape("4x2");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->nodes, 4U);
  EXPECT_EQ(shape->ranks_per_node, 2U);
}

TEST(ClusterShape, AnythingElseIsRefusedWithTheText) {
  for (const char* text : {"", "4", "4x", "x2", "0x2", "4x0", "4x2x1", "-1x2", "9999x1", "4 x 2"}) {
    EXPECT_FALSE(ParseClusterShape(text).ok()) << text;
  }
  EXPECT_THAT(std::string(ParseClusterShape("four").status().message()), HasSubstr("four"));
}

}  // namespace
}  // namespace maypole::cli
