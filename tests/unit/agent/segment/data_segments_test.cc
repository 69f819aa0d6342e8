#include "agent/segment/data_segments.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/segment/sealed_memory.h"

namespace maypole::agent {
namespace {

using testing::HasSubstr;

class DataSegmentsTest : public testing::Test {
 protected:
  std::uint32_t Add(std::uint64_t bytes) {
    std::uint32_t number = 0;
    UniqueFd fd;
    EXPECT_TRUE(segments_.Add(bytes, number, fd).ok());
    EXPECT_TRUE(fd.valid());
    return number;
  }

  std::string ErrorOfAdding(std::uint64_t bytes, ErrorCode expected) {
    std::uint32_t number = 0;
    UniqueFd fd;
    const Outcome outcome = segments_.Add(bytes, number, fd);
    EXPECT_EQ(outcome.code, expected);
    EXPECT_FALSE(fd.valid());
    return outcome.text;
  }

  DataSegments segments_{{.segments = 3, .bytes = 10 * 4096 + 100}};
};

TEST(SealedMemory, CanNeitherShrinkNorGrowNorBeUnsealed) {
  auto memory = CreateSealedMemory("test", 8192);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const int fd = memory->fd.get();
  EXPECT_NE(::ftruncate(fd, 0), 0);
  EXPECT_NE(::ftruncate(fd, 1 << 20), 0);
  EXPECT_NE(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  // Holes are what a client can still make: its pages become zero.
  memory->region.data()[0] = std::byte{1};
  EXPECT_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  EXPECT_EQ(memory->region.data()[0], std::byte{0});
}

TEST_F(DataSegmentsTest, AreFoundByNumberUntilRemoved) {
  const std::uint32_t number = Add(5000);
  EXPECT_EQ(segments_.Find(number).bytes, 8192u);
  EXPECT_EQ(segments_.bytes(), 8192u);
  EXPECT_EQ(segments_.Find(number + 1).address, nullptr);
  segments_.Remove(number);
  segments_.Remove(number);
  EXPECT_EQ(segments_.Find(number).address, nullptr);
  EXPECT_EQ(segments_.bytes(), 0u);
  EXPECT_NE(Add(1), number);
}

TEST_F(DataSegmentsTest, LimitsHoldForAnySize) {
  ErrorOfAdding(0, ErrorCode::kInvalidArgument);
  for (const std::uint64_t bytes :
       {std::uint64_t{10 * 4096 + 1}, std::uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 4095}) {
    EXPECT_THAT(ErrorOfAdding(bytes, ErrorCode::kResourceExhausted),
                HasSubstr(std::to_string(bytes)));
  }
  Add(10 * 4096);
  EXPECT_THAT(ErrorOfAdding(1, ErrorCode::kResourceExhausted),
              HasSubstr("40960 of at most 41060 bytes (--segment-bytes-max"));
}

TEST_F(DataSegmentsTest, TheirNumberIsBounded) {
  Add(1);
  Add(1);
  const std::uint32_t last = Add(1);
  EXPECT_THAT(ErrorOfAdding(1, ErrorCode::kResourceExhausted), HasSubstr("3 segments"));
  segments_.Remove(last);
  Add(1);
}

TEST_F(DataSegmentsTest, StayMappedWhileAnOpRuns) {
  const std::uint32_t number = Add(4096);
  const BufferView view = segments_.Find(number);
  segments_.OpBegan(number);
  segments_.OpBegan(number);
  segments_.Remove(number);
  EXPECT_EQ(segments_.Find(number).address, nullptr);
  view.address[0] = std::byte{1};
  segments_.OpEnded(number);
  EXPECT_EQ(segments_.bytes(), 4096u);
  view.address[0] = std::byte{2};
  segments_.OpEnded(number);
  EXPECT_EQ(segments_.bytes(), 0u);
}

}  // namespace
}  // namespace maypole::agent
