// Buffers in session memory for ops on ordinary memory. They are kept for reuse, because a training
// step asks for the same sizes again and again and a fresh segment costs a page fault per page.
//
// Threads: guarded; any.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "client/src/segment_heap.h"
#include "common/error_code.h"

namespace maypole::client::internal {

// Idle buffers beyond this are given back.
inline constexpr std::size_t kIdleStagingBytesMax = std::size_t{256} << 20;

class Staging {
 public:
  explicit Staging(SegmentHeap& heap) : heap_(heap) {}

  // At least `bytes` > 0 of undefined content. Errors: the heap's.
  Outcome Take(std::size_t bytes, std::byte*& buffer);
  // A buffer that Take gave and that nobody uses any more.
  void Give(std::byte* buffer);

  // Memory of the heap; gives idle buffers back where it would not suffice otherwise.
  Outcome Allocate(std::size_t bytes, Fill fill, std::byte*& block);

  std::size_t IdleBytes();

 private:
  Outcome AllocateLocked(std::size_t bytes, Fill fill, std::byte*& block);
  void DropLargest();

  SegmentHeap& heap_;
  std::mutex mutex_;
  std::multimap<std::size_t, std::byte*> idle_;  // by size
  std::map<std::byte*, std::size_t> taken_;
  std::size_t idle_bytes_ = 0;
};

}  // namespace maypole::client::internal
