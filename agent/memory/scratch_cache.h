// Scratch blocks of host memory by size class, with a bounded cache of freed ones.
//
// Threads: confined to one.
// Units: bytes. Classes are eighths of a power of two, so at most an eighth is wasted; at least 64
// bytes. Ownership: owns the cached blocks; one in use belongs to its user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

namespace maypole::agent {

class ScratchCache {
 public:
  explicit ScratchCache(std::uint64_t cached_bytes_max) : cached_bytes_max_(cached_bytes_max) {}

  ScratchCache(const ScratchCache&) = delete;
  ScratchCache& operator=(const ScratchCache&) = delete;
  // Frees what is cached; a block still in use stays with its user.
  ~ScratchCache();

  // 64-byte aligned (a page from 64 KiB on), contents undefined. Null when the kernel gives no
  // more.
  std::byte* Allocate(std::uint64_t bytes);
  // `bytes` as for Allocate. The least recently freed blocks go back to the kernel when the cache
  // is full.
  void Free(std::byte* address, std::uint64_t bytes);

  std::uint64_t in_use_bytes() const { return in_use_bytes_; }

  std::uint64_t cached_bytes() const { return cached_bytes_; }

 private:
  struct Freed {
    std::byte* address = nullptr;
    std::uint64_t order = 0;
  };

  void EvictOldest();

  const std::uint64_t cached_bytes_max_;
  std::uint64_t in_use_bytes_ = 0;
  std::uint64_t cached_bytes_ = 0;
  std::uint64_t frees_ = 0;
  std::map<std::uint64_t, std::deque<Freed>>
      freed_;  // by class; newest at the back; no empty queues
};

}  // namespace maypole::agent
