#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/src/segment_heap.h"
#include "client/src/staging.h"
#include "common/first_fit.h"
#include "common/unique_fd.h"

namespace maypole::client::internal {
namespace {

TEST(FirstFit, GivesRangesThatNeverOverlapAndMergesWhatComesBack) {
  constexpr std::uint64_t kBytes = 1000;
  FirstFit space(kBytes);
  std::map<std::uint64_t, std::uint64_t> taken;
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t bytes = random() % 100 + 1;
    const auto offset = random() % 2 == 0 ? space.Take(bytes) : std::nullopt;
    if (offset) {
      ASSERT_LE(*offset + bytes, kBytes);
      const auto next = taken.lower_bound(*offset);
      ASSERT_TRUE(next == taken.end() || *offset + bytes <= next->first);
      ASSERT_TRUE(next == taken.begin() ||
                  std::prev(next)->first + std::prev(next)->second <= *offset);
      taken.emplace(*offset, bytes);
    } else if (!taken.empty()) {
      const auto victim = std::next(taken.begin(), static_cast<long>(random() % taken.size()));
      space.Give(victim->first, victim->second);
      taken.erase(victim);
    }
  }
  for (const auto& [offset, bytes] : taken) {
    space.Give(offset, bytes);
  }
  EXPECT_TRUE(space.IsUnused());
  EXPECT_EQ(space.Take(kBytes), 0u);
  EXPECT_FALSE(space.Take(1));
}

// Segments from memfds of this process instead of an agent's.
class HeapTest : public testing::Test {
 protected:
  Outcome Make(std::size_t bytes, DataSegment& segment) {
    if (static_cast<std::size_t>(live_.size()) >= segments_max_) {
      return {ErrorCode::kResourceExhausted, "no more", ""};
    }
    const UniqueFd fd(::memfd_create("heap_test", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    segment.number = next_++;
    segment.memory = MappedRegion::Map(fd.get(), bytes, MapAccess::kReadWrite);
    live_[segment.number] = bytes;
    return {};
  }

  std::byte* Allocate(std::size_t bytes, Fill fill = Fill::kZero) {
    std::byte* memory = nullptr;
    EXPECT_TRUE(heap_.Allocate(bytes, fill, memory).ok());
    return memory;
  }

  std::size_t segments_max_ = 100;
  std::uint32_t next_ = 1;
  std::map<std::uint32_t, std::size_t> live_;
  SegmentHeap heap_{{[this](std::size_t bytes, DataSegment& made) { return Make(bytes, made); },
                     [this](std::uint32_t number) { live_.erase(number); }}};
};

TEST_F(HeapTest, SmallBlocksShareASegmentAndLargeOnesHaveTheirOwn) {
  std::byte* a = Allocate(100);
  std::byte* b = Allocate(kOwnSegmentBytes - kBlockAlignment);
  EXPECT_EQ(live_.size(), 1u);
  std::byte* c = Allocate(kOwnSegmentBytes);
  ASSERT_EQ(live_.size(), 2u);
  EXPECT_EQ(live_[2], kOwnSegmentBytes);
  for (std::byte* block : {a, b, c}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % kBlockAlignment, 0u);
  }
  EXPECT_TRUE(heap_.Free(c).ok());
  EXPECT_EQ(live_.size(), 1u);
  EXPECT_TRUE(heap_.Free(a).ok());
  EXPECT_TRUE(heap_.Free(b).ok());
  EXPECT_EQ(live_.size(), 0u);
}

TEST_F(HeapTest, ReusedMemoryIsZeroed) {
  Allocate(64);  // keeps the segment
  std::byte* block = Allocate(1000);
  std::fill_n(block, 1000, std::byte{0xff});
  ASSERT_TRUE(heap_.Free(block).ok());
  std::byte* again = Allocate(1000);
  EXPECT_EQ(again, block);
  EXPECT_TRUE(std::all_of(again, again + 1000, [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(HeapTest, FreeingWhatIsNoBlockIsRefused) {
  std::byte* block = Allocate(100);
  int elsewhere = 0;
  EXPECT_EQ(heap_.Free(&elsewhere).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(heap_.Free(block + 64).code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(heap_.Free(block).ok());
  EXPECT_EQ(heap_.Free(block).code, ErrorCode::kInvalidArgument);
}

TEST_F(HeapTest, APinnedBlockIsFoundAndCannotBeFreed) {
  std::byte* block = Allocate(128);
  Place place;
  ASSERT_TRUE(heap_.Pin(block + 28, place));
  EXPECT_EQ(place.block, block);
  EXPECT_EQ(place.room, 100u);
  EXPECT_EQ(heap_.Free(block).code, ErrorCode::kFailedPrecondition);
  heap_.Unpin(place.block);
  EXPECT_TRUE(heap_.Free(block).ok());
}

TEST_F(HeapTest, PlacesOutsideBlocksHaveNoRoom) {
  std::byte* block = Allocate(64);
  Place place;
  ASSERT_TRUE(heap_.Pin(block + 64, place));
  EXPECT_EQ(place.block, nullptr);
  EXPECT_EQ(place.room, 0u);
  int elsewhere = 0;
  EXPECT_FALSE(heap_.Pin(&elsewhere, place));
}

TEST_F(HeapTest, TheSourcesErrorIsPassedOn) {
  segments_max_ = 0;
  std::byte* memory = nullptr;
  EXPECT_EQ(heap_.Allocate(1, Fill::kZero, memory).code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(heap_.Allocate(SIZE_MAX, Fill::kZero, memory).code, ErrorCode::kInvalidArgument);
}

TEST_F(HeapTest, StagingReusesBuffersOfLikeSize) {
  Staging staging(heap_);
  std::byte* first = nullptr;
  ASSERT_TRUE(staging.Take(2 << 20, first).ok());
  staging.Give(first);
  std::byte* second = nullptr;
  ASSERT_TRUE(staging.Take((2 << 20) - 100, second).ok());
  EXPECT_EQ(second, first);
  std::byte* small = nullptr;
  staging.Give(second);
  ASSERT_TRUE(staging.Take(10, small).ok());
  EXPECT_NE(small, first);  // 2 MiB for 10 bytes would be waste
}

TEST_F(HeapTest, StagingGivesIdleBuffersBackForWhatWouldNotFitOtherwise) {
  Staging staging(heap_);
  segments_max_ = 1;
  std::byte* buffer = nullptr;
  ASSERT_TRUE(staging.Take(8 << 20, buffer).ok());
  staging.Give(buffer);
  ASSERT_TRUE(staging.Take(2 << 20, buffer).ok());  // too small for the idle one
  EXPECT_EQ(staging.IdleBytes(), 0u);
  staging.Give(buffer);
  ASSERT_TRUE(staging.Allocate(16 << 20, Fill::kZero, buffer).ok());
  std::byte* more = nullptr;
  EXPECT_EQ(staging.Take(4 << 20, more).code, ErrorCode::kResourceExhausted);
}

TEST_F(HeapTest, StagingKeepsABoundedAmount) {
  Staging staging(heap_);
  constexpr std::size_t kPiece = kIdleStagingBytesMax / 2 + 1;
  std::byte* a = nullptr;
  std::byte* b = nullptr;
  ASSERT_TRUE(staging.Take(kPiece, a).ok());
  ASSERT_TRUE(staging.Take(kPiece, b).ok());
  staging.Give(a);
  EXPECT_EQ(staging.IdleBytes(), kPiece);
  staging.Give(b);
  EXPECT_EQ(staging.IdleBytes(), kPiece);
  EXPECT_EQ(live_.size(), 1u);
}

}  // namespace
}  // namespace maypole::client::internal
