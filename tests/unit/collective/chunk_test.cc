#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/schedule.h"
#include "collective/slices.h"

namespace maypole::collective {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

void ExpectTiles(ElementCount elements, std::uint32_t members) {
  SCOPED_TRACE(testing::Message() << elements << " elements, " << members << " members");
  ElementCount end = 0;
  for (std::uint32_t index = 0; index < members; ++index) {
    const ElementRange chunk = ChunkOf(elements, members, index);
    EXPECT_EQ(chunk.begin, end);
    EXPECT_LE(chunk.begin, chunk.end);
    end = chunk.end;
  }
  EXPECT_EQ(end, elements);
}

TEST(Algorithms, HaveNamesThatFitIntoTheClientsSixteenBytes) {
  for (const Algorithm algorithm : kAlgorithms) {
    EXPECT_LT(Name(algorithm).size(), 16U) << Name(algorithm);
    EXPECT_NE(Name(algorithm), "unknown");
  }
}

TEST(Chunks, TileTheTensorForEverySmallSize) {
  for (std::uint32_t members = 1; members <= 17; ++members) {
    for (ElementCount elements = 0; elements <= 4 * members + 1; ++elements) {
      ExpectTiles(elements, members);
    }
  }
}

TEST(Chunks, TileTheTensorWhereTheyBecomeAligned) {
  for (const std::uint32_t members : {1U, 3U, 16U, 200U}) {
    for (ElementCount size = 8190; size <= 8260; ++size) {
      ExpectTiles(size * members, members);
      ExpectTiles(size * members - 1, members);
    }
  }
  ExpectTiles((ElementCount{1} << 62) + 5, 7);
  ExpectTiles(~ElementCount{0}, 3);
}

TEST(Chunks, AreExactWhenSmall) {
  EXPECT_EQ(ChunkOf(7, 3, 0), (ElementRange{0, 3}));
  EXPECT_EQ(ChunkOf(7, 3, 2), (ElementRange{6, 7}));
  EXPECT_EQ(ChunkOf(4, 3, 2), (ElementRange{4, 4}));
  EXPECT_EQ(ChunkOf(2, 3, 1), (ElementRange{1, 2}));
  EXPECT_EQ(ChunkOf(0, 3, 1), (ElementRange{0, 0}));
}

TEST(Chunks, BeginAtMultiplesOf64WhenLarge) {
  for (std::uint32_t index = 0; index < 5; ++index) {
    EXPECT_EQ(ChunkOf(1'000'003, 5, index).begin % 64, 0U);
    EXPECT_LE(ChunkOf(1'000'003, 5, index).size(), 200'001U + 63);
  }
}

TEST(Slices, AreEvenAndHaveNoShortTail) {
  EXPECT_THAT(SlicesOf({10, 21}, 4),
              ElementsAre(ElementRange{10, 13}, ElementRange{13, 17}, ElementRange{17, 21}));
  EXPECT_THAT(SlicesOf({3, 3}, 4), IsEmpty());
  EXPECT_THAT(SlicesOf({0, 129}, 128), ElementsAre(ElementRange{0, 64}, ElementRange{64, 129}));
}

TEST(Slices, TileTheRangeWithinTheLimitForEverySizeAndLimit) {
  const ElementRange range_of_sizes = {0, 700};
  for (const ElementCount limit : {1U, 2U, 7U, 63U, 64U, 65U, 128U, 192U}) {
    for (ElementCount size = range_of_sizes.begin; size < range_of_sizes.end; ++size) {
      SCOPED_TRACE(testing::Message() << size << " elements by " << limit);
      ElementCount end = 1000;
      const auto slices = SlicesOf({1000, 1000 + size}, limit);
      EXPECT_EQ(slices.size(), (size + limit - 1) / limit);
      for (const ElementRange slice : slices) {
        EXPECT_EQ(slice.begin, end);
        EXPECT_LT(slice.begin, slice.end);
        EXPECT_LE(slice.size(), limit);
        EXPECT_TRUE(limit % 64 != 0 || (slice.begin - 1000) % 64 == 0);
        end = slice.end;
      }
      EXPECT_EQ(end, 1000 + size);
    }
  }
}

}  // namespace
}  // namespace maypole::collective
