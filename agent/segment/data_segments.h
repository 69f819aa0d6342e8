// The data segments of one session: bounded in number and bytes, and never unmapped while anything
// may still use them.
//
// Threads: confined to the loop's (the bytes are used by others).
#pragma once

#include <cstdint>
#include <map>

#include "agent/memory/buffer.h"
#include "common/error_code.h"
#include "common/mapped_region.h"
#include "common/unique_fd.h"

namespace maypole::agent {

class DataSegments {
 public:
  struct Limits {
    std::uint32_t segments = 0;
    std::uint64_t bytes = 0;
  };

  explicit DataSegments(Limits limits) : limits_(limits) {}

  // A new segment; `fd` is to be passed on. Errors: kInvalidArgument for 0 bytes;
  // kResourceExhausted, naming what was asked and the limit.
  Outcome Add(std::uint64_t bytes, std::uint32_t& number, UniqueFd& fd);
  // The client wants no more of it. Unmapped at once if nothing uses it, else when its last op has
  // ended. Unknown numbers are ignored.
  void Remove(std::uint32_t number);

  // Address null if the client has none of that number.
  BufferView Find(std::uint32_t number) const;
  // From its submission on.
  void OpBegan(std::uint32_t number);
  // Nothing of it reads or writes any more.
  void OpEnded(std::uint32_t number);

  // Now mapped.
  std::size_t count() const { return segments_.size(); }

  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Segment {
    MappedRegion region;
    std::uint32_t ops = 0;
    bool is_removed = false;
  };

  void UnmapIfUnused(std::map<std::uint32_t, Segment>::iterator segment);

  Limits limits_;
  std::map<std::uint32_t, Segment> segments_;
  std::uint32_t next_ = 1;  // numbers are not used twice
  std::uint64_t bytes_ = 0;
};

}  // namespace maypole::agent
