#include "agent/memory/host_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "common/unique_fd.h"

namespace maypole::agent {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr JobToken kJob{17};

HostMemory::Options Small() {
  HostMemory::Options options;
  options.scratch_cache_bytes = kMiB;
  options.result_bytes_per_job_max = 256 * kKiB;
  options.result_segment_bytes = 64 * kKiB;
  return options;
}

// ---- scratch

TEST(Scratch, IsAlignedAndWritableAtEverySize) {
  HostMemory memory(Small());
  for (const std::uint64_t bytes : {std::uint64_t{0},
                                    std::uint64_t{1},
                                    std::uint64_t{63},
                                    std::uint64_t{64},
                                    std::uint64_t{65},
                                    512 * kKiB - 1,
                                    64 * kKiB - 1,
                                    64 * kKiB,
                                    64 * kKiB + 1,
                                    2 * kMiB,
                                    3 * kMiB + 7}) {
    const BufferView buffer = memory.AllocateScratch(bytes);
    ASSERT_NE(buffer.address, nullptr) << bytes;
    EXPECT_EQ(buffer.bytes, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.address) % 64, 0U) << bytes;
    std::memset(buffer.address, 0xAB, bytes);
    memory.FreeScratch(buffer);
  }
  EXPECT_EQ(memory.stats().scratch_in_use_bytes, 0U);
}

TEST(Scratch, WastesAtMostAnEighth) {
  HostMemory memory(Small());
  for (std::uint64_t bytes = 64; bytes < 8 * kMiB; bytes += bytes / 3 + 1) {
    const BufferView buffer = memory.AllocateScratch(bytes);
    const std::uint64_t taken = memory.stats().scratch_in_use_bytes;
    EXPECT_GE(taken, bytes);
    EXPECT_LE(taken, bytes + bytes / 8 + 63);
    memory.FreeScratch(buffer);
  }
}

TEST(Scratch, FreedBlocksAreUsedAgain) {
  HostMemory memory(Small());
  const BufferView first = memory.AllocateScratch(100 * kKiB);
  memory.FreeScratch(first);
  EXPECT_GT(memory.stats().scratch_cached_bytes, 0U);
  const BufferView second = memory.AllocateScratch(100 * kKiB - 1);  // same class
  EXPECT_EQ(second.address, first.address);
  EXPECT_EQ(memory.stats().scratch_cached_bytes, 0U);
  memory.FreeScratch(second);
}

TEST(Scratch, CacheStaysWithinItsBoundAndDropsTheOldest) {
  HostMemory memory(Small());
  std::vector<BufferView> buffers;
  for (int i = 0; i < 20; ++i) {
    buffers.push_back(memory.AllocateScratch(128 * kKiB));
  }
  const BufferView large = memory.AllocateScratch(2 * kMiB);
  for (const BufferView& buffer : buffers) {
    memory.FreeScratch(buffer);
    EXPECT_LE(memory.stats().scratch_cached_bytes, kMiB);
  }
  EXPECT_EQ(memory.stats().scratch_cached_bytes, kMiB);
  EXPECT_EQ(memory.AllocateScratch(128 * kKiB).address, buffers.back().address);
  memory.FreeScratch(buffers.back());
  memory.FreeScratch(large);  // larger than the cache: returned at once
  EXPECT_EQ(memory.stats().scratch_cached_bytes, kMiB);
  EXPECT_EQ(memory.stats().scratch_in_use_bytes, 0U);
}

TEST(Scratch, OtherSizesPushOutBlocksThatNobodyWantsAnyMore) {
  HostMemory memory(Small());
  const BufferView old_size = memory.AllocateScratch(900 * kKiB);
  const BufferView new_size = memory.AllocateScratch(512 * kKiB);
  memory.FreeScratch(old_size);
  memory.FreeScratch(new_size);
  EXPECT_EQ(memory.stats().scratch_cached_bytes, 512 * kKiB);
}

TEST(Scratch, AnImpossibleSizeGivesNull) {
  HostMemory memory(Small());
  EXPECT_EQ(memory.AllocateScratch(std::numeric_limits<std::uint64_t>::max()).address, nullptr);
  EXPECT_EQ(memory.AllocateScratch(std::uint64_t{1} << 46).address, nullptr);
  memory.FreeScratch(memory.AllocateScratch(std::uint64_t{1} << 50));
  EXPECT_EQ(memory.stats().scratch_in_use_bytes, 0U);
}

// ---- results

TEST(Results, LieApartAndPageAligned) {
  HostMemory memory(Small());
  std::set<const std::byte*> addresses;
  for (const std::uint64_t bytes : {1, 4096, 4097, 0, 0}) {
    const auto result = memory.AllocateResult(kJob, bytes);
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->view.bytes, bytes);
    EXPECT_EQ(result->offset % 4096, 0U);
    EXPECT_TRUE(addresses.insert(result->view.address).second);
    std::memset(result->view.address, 1, bytes);
  }
  EXPECT_EQ(memory.stats().result_in_use_bytes, 6 * 4096U);
}

TEST(Results, AreSeenThroughTheDescriptorThatAClientGets) {
  HostMemory memory(Small());
  ASSERT_TRUE(memory.AllocateResult(kJob, 4096).has_value());
  const auto result = memory.AllocateResult(kJob, 5);
  ASSERT_TRUE(result.has_value());
  std::memcpy(result->view.address, "ribbon", 5);
  std::uint64_t bytes = 0;
  const UniqueFd fd(memory.OpenResultSegment(kJob, result->segment, bytes));
  ASSERT_TRUE(fd.valid());
  EXPECT_EQ(bytes, 64 * kKiB);
  void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(std::memcmp(static_cast<const std::byte*>(mapped) + result->offset, "ribbo", 5), 0);
  std::memcpy(result->view.address, "dance", 5);  // written after the client mapped it
  EXPECT_EQ(std::memcmp(static_cast<const std::byte*>(mapped) + result->offset, "dance", 5), 0);
  ::munmap(mapped, bytes);
}

TEST(Results, CanBeNeitherWrittenNorResizedByAClient) {
  HostMemory memory(Small());
  const auto result = memory.AllocateResult(kJob, 4096);
  ASSERT_TRUE(result.has_value());
  std::uint64_t bytes = 0;
  const UniqueFd fd(memory.OpenResultSegment(kJob, result->segment, bytes));
  ASSERT_TRUE(fd.valid());
  EXPECT_EQ(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::pwrite(fd.get(), "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(fd.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes * 2)), -1);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(::mprotect(mapped, bytes, PROT_READ | PROT_WRITE), -1);
  ::munmap(mapped, bytes);
}

TEST(Results, StopAtTheLimitOfTheJobAndGoOnWhenSomeAreFreed) {
  HostMemory memory(Small());
  std::vector<SharedResult> results;
  while (const auto result = memory.AllocateResult(kJob, 32 * kKiB)) {
    results.push_back(*result);
  }
  EXPECT_EQ(results.size(), 8U);
  EXPECT_EQ(memory.stats().result_segment_bytes, 256 * kKiB);
  EXPECT_TRUE(
      memory.AllocateResult(JobToken{18}, 32 * kKiB).has_value());  // another job is not concerned
  memory.FreeResult(kJob, results[3]);
  EXPECT_TRUE(memory.AllocateResult(kJob, 32 * kKiB).has_value());
  EXPECT_FALSE(memory.AllocateResult(kJob, 0).has_value());
}

TEST(Results, LargerThanASegmentGetOneOfTheirOwn) {
  HostMemory memory(Small());
  ASSERT_TRUE(memory.AllocateResult(kJob, 1).has_value());
  const auto large = memory.AllocateResult(kJob, 150 * kKiB);
  ASSERT_TRUE(large.has_value());
  EXPECT_EQ(large->offset, 0U);
  EXPECT_FALSE(memory.AllocateResult(kJob, 257 * kKiB).has_value());
  EXPECT_FALSE(memory.AllocateResult(kJob, std::numeric_limits<std::uint64_t>::max()).has_value());
}

TEST(Results, AnEmptySegmentMakesRoomForALargerOne) {
  HostMemory memory(Small());
  memory.FreeResult(kJob, *memory.AllocateResult(kJob, 1));
  EXPECT_EQ(memory.stats().result_segment_bytes, 64 * kKiB);  // kept
  EXPECT_TRUE(memory.AllocateResult(kJob, 256 * kKiB).has_value());
  EXPECT_EQ(memory.stats().result_segment_bytes, 256 * kKiB);
}

TEST(Results, FreedPlacesMergeInAnyOrder) {
  HostMemory memory(Small());
  const std::vector<std::vector<std::size_t>> orders = {
      {0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}};
  for (const auto& order : orders) {
    std::vector<SharedResult> results;
    for (int i = 0; i < 3; ++i) {
      results.push_back(*memory.AllocateResult(kJob, 20 * kKiB));
    }
    for (const std::size_t i : order) {
      memory.FreeResult(kJob, results[i]);
    }
    const auto whole = memory.AllocateResult(kJob, 64 * kKiB);
    ASSERT_TRUE(whole.has_value());
    EXPECT_EQ(whole->segment, 0U);  // the one that was there
    memory.FreeResult(kJob, *whole);
  }
}

TEST(Results, OnlyOneEmptySegmentIsKeptAndNumbersAreNeverReused) {
  HostMemory memory(Small());
  std::vector<SharedResult> results;
  for (int i = 0; i < 4; ++i) {
    results.push_back(*memory.AllocateResult(kJob, 64 * kKiB));
  }
  for (const SharedResult& result : results) {
    memory.FreeResult(kJob, result);
  }
  EXPECT_EQ(memory.stats().result_segment_bytes, 64 * kKiB);
  std::set<std::uint32_t> numbers;
  for (int i = 0; i < 4; ++i) {
    numbers.insert(memory.AllocateResult(kJob, 64 * kKiB)->segment);
  }
  EXPECT_EQ(numbers, (std::set<std::uint32_t>{0, 4, 5, 6}));
}

TEST(Results, GoWithTheirJob) {
  HostMemory memory(Small());
  const auto result = memory.AllocateResult(kJob, 4096);
  ASSERT_TRUE(result.has_value());
  memory.ReleaseJob(kJob);
  std::uint64_t bytes = 0;
  EXPECT_EQ(memory.OpenResultSegment(kJob, result->segment, bytes), -1);
  EXPECT_EQ(memory.stats().result_segment_bytes, 0U);
  memory.FreeResult(kJob, *result);  // late, and harmless
}

}  // namespace
}  // namespace maypole::agent
