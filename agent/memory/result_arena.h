// The shared results of one job: sealed memfd segments that the agent writes and the ranks of the
// node map read-only, with a first-fit allocator over them.
//
// Threads: confined to one.
// Trust: F_SEAL_FUTURE_WRITE after the agent's own mapping exists, so that whoever gets the
// descriptor can neither write nor truncate what other ranks read (Linux 5.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "agent/memory/memory.h"
#include "common/first_fit.h"
#include "common/mapped_region.h"
#include "common/unique_fd.h"

namespace maypole::agent {

class ResultArena {
 public:
  // `segment_bytes`: size of an ordinary segment; a larger result gets one of its own size.
  // `bytes_max`: of all segments of this job together.
  ResultArena(std::uint64_t segment_bytes, std::uint64_t bytes_max)
      : segment_bytes_(segment_bytes), bytes_max_(bytes_max) {}

  // Page aligned. Zero bytes are legal and take a page. Empty if bytes_max or the kernel's limit is
  // reached.
  std::optional<SharedResult> Allocate(std::uint64_t bytes);
  // `result` exactly as it was given. One empty segment is kept, others go back to the kernel.
  void Free(const SharedResult& result);

  // A descriptor of its own for a client, and the segment's size; -1 if there is no such segment.
  int OpenSegment(std::uint32_t segment, std::uint64_t& bytes) const;

  std::uint64_t in_use_bytes() const { return in_use_bytes_; }

  std::uint64_t segment_bytes_total() const { return total_bytes_; }

 private:
  struct Segment {
    UniqueFd fd;
    MappedRegion mapping;
    FirstFit space;
  };

  // Segment numbers are never used twice, so that a client's old mapping is never taken for a new
  // segment.
  using Segments = std::map<std::uint32_t, Segment>;

  std::optional<Segment> MakeSegment(std::uint64_t bytes) const;
  bool AddSegment(std::uint64_t bytes_min);
  void DropEmptySegments(std::size_t kept);

  const std::uint64_t segment_bytes_;
  const std::uint64_t bytes_max_;
  std::uint64_t in_use_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
  std::uint32_t next_number_ = 0;
  Segments segments_;
};

}  // namespace maypole::agent
