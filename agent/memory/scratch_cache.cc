#include "agent/memory/scratch_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "common/check.h"

namespace maypole::agent {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kMappedBytesMin = 64 * 1024;  // below: the heap
constexpr std::uint64_t kHugePageBytes = 2 * 1024 * 1024;
constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 46;  // no address space is larger

// The smallest class that holds `bytes`.
std::uint64_t ClassOf(std::uint64_t bytes) {
  if (bytes <= 8 * kAlignment) {
    return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  const std::uint64_t eighth = std::bit_floor(bytes - 1) / 8;
  return (bytes + eighth - 1) / eighth * eighth;
}

std::byte* MapBlock(std::uint64_t bytes) {
  // Huge pages need addresses that are multiples of them: map more, and give the rest back.
  const std::uint64_t slack = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* mapped =
      ::mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return nullptr;
  }
  auto* begin = static_cast<std::byte*>(mapped);
  if (slack == 0) {
    return begin;
  }
  const std::uint64_t before = (0 - reinterpret_cast<std::uintptr_t>(begin)) % kHugePageBytes;
  if (before > 0) {
    ::munmap(begin, before);
  }
  if (before < slack) {
    ::munmap(begin + before + bytes, slack - before);
  }
  ::madvise(begin + before, bytes, MADV_HUGEPAGE);  // a wish; small pages do as well
  return begin + before;
}

void ReleaseBlock(std::byte* address, std::uint64_t bytes) {
  if (bytes >= kMappedBytesMin) {
    ::munmap(address, bytes);
  } else {
    std::free(address);
  }
}

}  // namespace

ScratchCache::~ScratchCache() {
  while (!freed_.empty()) {
    EvictOldest();
  }
}

std::byte* ScratchCache::Allocate(std::uint64_t bytes) {
  if (bytes > kBytesMax) {
    return nullptr;
  }
  const std::uint64_t block = ClassOf(bytes);
  std::byte* address = nullptr;
  if (const auto found = freed_.find(block); found != freed_.end()) {
    address = found->second.back().address;
    found->second.pop_back();
    if (found->second.empty()) {
      freed_.erase(found);
    }
    cached_bytes_ -= block;
  } else if (block >= kMappedBytesMin) {
    address = MapBlock(block);
  } else {
    address = static_cast<std::byte*>(std::aligned_alloc(kAlignment, block));
  }
  if (address != nullptr) {
    in_use_bytes_ += block;
  }
  return address;
}

void ScratchCache::Free(std::byte* address, std::uint64_t bytes) {
  if (address == nullptr) {
    return;
  }
  const std::uint64_t block = ClassOf(bytes);
  MAYPOLE_CHECK(in_use_bytes_ >= block);
  in_use_bytes_ -= block;
  if (block > cached_bytes_max_) {
    ReleaseBlock(address, block);
    return;
  }
  freed_[block].push_back({address, ++frees_});
  cached_bytes_ += block;
  while (cached_bytes_ > cached_bytes_max_) {
    EvictOldest();
  }
}

void ScratchCache::EvictOldest() {
  const auto oldest =
      std::min_element(freed_.begin(), freed_.end(), [](const auto& a, const auto& b) {
        return a.second.front().order < b.second.front().order;
      });
  const std::uint64_t block = oldest->first;
  ReleaseBlock(oldest->second.front().address, block);
  oldest->second.pop_front();
  if (oldest->second.empty()) {
    freed_.erase(oldest);
  }
  cached_bytes_ -= block;
}

}  // namespace maypole::agent
