// The agent's own host memory: scratch from a bounded cache, results in sealed shared segments, one
// arena per job.
//
// Threads: confined to the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "agent/memory/memory.h"
#include "agent/memory/result_arena.h"
#include "agent/memory/scratch_cache.h"

namespace maypole::agent {

class HostMemory : public Memory {
 public:
  struct Options {
    // Freed scratch that is kept for the next op; the rest goes back to the kernel.
    std::uint64_t scratch_cache_bytes = std::uint64_t{256} << 20;
    // Results of one job that its ranks have not released.
    std::uint64_t result_bytes_per_job_max = std::uint64_t{4} << 30;
    std::uint64_t result_segment_bytes = std::uint64_t{64} << 20;
  };

  struct Stats {
    std::uint64_t scratch_in_use_bytes = 0;
    std::uint64_t scratch_cached_bytes = 0;
    std::uint64_t result_in_use_bytes = 0;
    std::uint64_t result_segment_bytes = 0;  // in use or not
  };

  explicit HostMemory(const Options& options)
      : options_(options), scratch_(options.scratch_cache_bytes) {}

  BufferView AllocateScratch(std::uint64_t bytes) override;
  void FreeScratch(BufferView buffer) override;
  std::optional<SharedResult> AllocateResult(JobToken job, std::uint64_t bytes) override;
  void FreeResult(JobToken job, const SharedResult& result) override;
  void ReleaseJob(JobToken job) override;

  // A descriptor that the caller owns, to be passed to a client, which can map it read-only only;
  // `bytes` is the segment's size. -1 if the job has no such segment (any more), or with errno from
  // the kernel.
  int OpenResultSegment(JobToken job, std::uint32_t segment, std::uint64_t& bytes) const;

  Stats stats() const;

 private:
  const Options options_;
  ScratchCache scratch_;
  std::map<JobToken, ResultArena> results_;
};

}  // namespace maypole::agent
