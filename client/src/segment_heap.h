// The memory of a session: blocks within data segments, which come from the agent. A block of
// kOwnSegmentBytes or more gets a segment of its own, so that freeing it gives the memory back;
// smaller ones share segments of kSharedSegmentBytes.
//
// Threads: guarded; any. The source is called with the heap's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "common/error_code.h"
#include "common/first_fit.h"
#include "common/mapped_region.h"

namespace maypole::client::internal {

inline constexpr std::size_t kBlockAlignment = 64;
inline constexpr std::size_t kOwnSegmentBytes = std::size_t{1} << 20;
inline constexpr std::size_t kSharedSegmentBytes = std::size_t{4} << 20;

struct DataSegment {
  std::uint32_t number = 0;
  MappedRegion memory;  // zeroed
};

struct SegmentSource {
  std::function<Outcome(std::size_t bytes, DataSegment& segment)> allocate;
  std::function<void(std::uint32_t number)> free;
};

// A place in session memory.
struct Place {
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;
  std::byte* block = nullptr;  // start of the block it lies in
  std::uint64_t room = 0;      // bytes from it to the end of that block
};

enum class Fill { kZero, kUndefined };

class SegmentHeap {
 public:
  explicit SegmentHeap(SegmentSource source) : source_(std::move(source)) {}

  // `bytes` > 0, aligned to kBlockAlignment. Errors: the source's.
  Outcome Allocate(std::size_t bytes, Fill fill, std::byte*& memory);
  // Errors: kInvalidArgument if `memory` is no block's start; kFailedPrecondition while an op uses
  // it.
  Outcome Free(void* memory);

  // False if `address` is not session memory. A place that no block covers has room 0 and no block;
  // else the block counts one more user, until Unpin(place.block).
  bool Pin(const void* address, Place& place);
  void Unpin(const std::byte* block);

  // Unmaps everything; the agent is not told.
  void Clear();
  // In a forked child, where nothing is mapped: forgets without unmapping.
  void Abandon();

 private:
  struct Block {
    std::size_t bytes = 0;
    std::uint32_t users = 0;
  };

  struct Segment {
    Segment(DataSegment made, std::uint64_t room) : data(std::move(made)), space(room) {}

    DataSegment data;
    FirstFit space;
    std::map<std::uint64_t, Block> blocks;  // by offset
    bool is_shared = false;
  };

  std::byte* TakeFrom(Segment& segment, std::size_t bytes, Fill fill);
  Outcome AddSegment(std::size_t bytes, bool is_shared, Segment*& segment);
  Segment* Find(const void* address);
  Block* FindBlock(const void* start);

  SegmentSource source_;
  std::mutex mutex_;
  std::map<const std::byte*, std::unique_ptr<Segment>> segments_;  // by first address
};

}  // namespace maypole::client::internal
