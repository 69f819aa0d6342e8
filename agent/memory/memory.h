// The memory that an agent owns beside its clients' segments: scratch for partial sums and undo
// copies, and results that all ranks of the node read from one copy. The core asks through this
// interface, so that the simulator can give it plain heap.
//
// Threads: confined to the loop's thread (the bytes themselves are used by the reduce pool).
#pragma once

#include <cstdint>
#include <optional>

#include "agent/memory/buffer.h"
#include "common/ids.h"

namespace maypole::agent {

// A result that the ranks of this node map read-only: see kSlotSharedResult in
// proto/segment_layout.h.
struct SharedResult {
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;
  BufferView view;
};

class Memory {
 public:
  virtual ~Memory() = default;

  // At least 64-byte aligned, contents undefined. address is null when the kernel gives no more.
  virtual BufferView AllocateScratch(std::uint64_t bytes) = 0;
  // `buffer` exactly as it was given.
  virtual void FreeScratch(BufferView buffer) = 0;

  // Empty when the job's limit for shared results is reached.
  virtual std::optional<SharedResult> AllocateResult(JobToken job, std::uint64_t bytes) = 0;
  virtual void FreeResult(JobToken job, const SharedResult& result) = 0;
  // The job is over: all its results go.
  virtual void ReleaseJob(JobToken job) = 0;
};

}  // namespace maypole::agent
