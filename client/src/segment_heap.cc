#include "client/src/segment_heap.h"

#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "client/src/failure.h"

namespace maypole::client::internal {

Outcome SegmentHeap::Allocate(std::size_t bytes, Fill fill, std::byte*& memory) {
  if (bytes > std::numeric_limits<std::size_t>::max() - kBlockAlignment) {
    return InvalidArgument("cannot allocate " + std::to_string(bytes) + " bytes");
  }
  const std::size_t rounded = (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  const bool is_shared = rounded < kOwnSegmentBytes;
  const std::lock_guard lock(mutex_);
  if (is_shared) {
    for (auto& [address, segment] : segments_) {
      if (segment->is_shared && (memory = TakeFrom(*segment, rounded, fill)) != nullptr) {
        return {};
      }
    }
  }
  Segment* segment = nullptr;
  if (Outcome added = AddSegment(is_shared ? kSharedSegmentBytes : rounded, is_shared, segment);
      !added.ok()) {
    return added;
  }
  memory = TakeFrom(*segment, rounded, Fill::kUndefined);  // fresh pages are zero
  return {};
}

std::byte* SegmentHeap::TakeFrom(Segment& segment, std::size_t bytes, Fill fill) {
  const auto offset = segment.space.Take(bytes);
  if (!offset) {
    return nullptr;
  }
  segment.blocks.emplace(*offset, Block{bytes, 0});
  std::byte* memory = segment.data.memory.data() + *offset;
  if (fill == Fill::kZero) {
    std::memset(memory, 0, bytes);
  }
  return memory;
}

Outcome SegmentHeap::AddSegment(std::size_t bytes, bool is_shared, Segment*& segment) {
  DataSegment data;
  if (Outcome allocated = source_.allocate(bytes, data); !allocated.ok()) {
    return allocated;
  }
  const std::byte* address = data.memory.data();
  auto made = std::make_unique<Segment>(std::move(data), bytes);
  made->is_shared = is_shared;
  segment = segments_.emplace(address, std::move(made)).first->second.get();
  return {};
}

Outcome SegmentHeap::Free(void* memory) {
  const std::lock_guard lock(mutex_);
  Block* block = FindBlock(memory);
  if (block == nullptr) {
    return InvalidArgument(
        "the address was not allocated by maypole_alloc of this session, or is freed already");
  }
  if (block->users > 0) {
    return Failure(ErrorCode::kFailedPrecondition,
                   "the memory is used by " + std::to_string(block->users) +
                       " ops that were not waited for; wait for them before freeing it");
  }
  Segment* segment = Find(memory);
  const std::byte* address = segment->data.memory.data();
  const auto offset = static_cast<std::uint64_t>(static_cast<std::byte*>(memory) - address);
  segment->space.Give(offset, block->bytes);
  segment->blocks.erase(offset);
  if (segment->space.IsUnused()) {
    source_.free(segment->data.number);
    segments_.erase(address);
  }
  return {};
}

bool SegmentHeap::Pin(const void* address, Place& place) {
  const std::lock_guard lock(mutex_);
  Segment* segment = Find(address);
  if (segment == nullptr) {
    return false;
  }
  const std::byte* first = segment->data.memory.data();
  place = {segment->data.number,
           static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - first),
           nullptr,
           0};
  auto next = segment->blocks.upper_bound(place.offset);
  if (next != segment->blocks.begin()) {
    auto& [offset, block] = *std::prev(next);
    if (place.offset < offset + block.bytes) {
      place.block = segment->data.memory.data() + offset;
      place.room = offset + block.bytes - place.offset;
      ++block.users;
    }
  }
  return true;
}

void SegmentHeap::Unpin(const std::byte* block) {
  const std::lock_guard lock(mutex_);
  if (Block* found = FindBlock(block); found != nullptr && found->users > 0) {
    --found->users;
  }
}

void SegmentHeap::Clear() {
  const std::lock_guard lock(mutex_);
  segments_.clear();
}

void SegmentHeap::Abandon() {
  for (auto& [address, segment] : segments_) {
    segment->data.memory.Abandon();
  }
}

SegmentHeap::Segment* SegmentHeap::Find(const void* address) {
  const auto* place = static_cast<const std::byte*>(address);
  auto next = segments_.upper_bound(place);
  if (next == segments_.begin()) {
    return nullptr;
  }
  Segment* segment = std::prev(next)->second.get();
  return place < segment->data.memory.data() + segment->data.memory.size() ? segment : nullptr;
}

SegmentHeap::Block* SegmentHeap::FindBlock(const void* start) {
  Segment* segment = Find(start);
  if (segment == nullptr) {
    return nullptr;
  }
  const auto offset = static_cast<const std::byte*>(start) - segment->data.memory.data();
  const auto found = segment->blocks.find(static_cast<std::uint64_t>(offset));
  return found == segment->blocks.end() ? nullptr : &found->second;
}

}  // namespace maypole::client::internal
