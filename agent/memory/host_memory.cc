#include "agent/memory/host_memory.h"

namespace maypole::agent {

BufferView HostMemory::AllocateScratch(std::uint64_t bytes) {
  return {MemoryKind::kHost, scratch_.Allocate(bytes), bytes};
}

void HostMemory::FreeScratch(BufferView buffer) {
  scratch_.Free(buffer.address, buffer.bytes);
}

std::optional<SharedResult> HostMemory::AllocateResult(JobToken job, std::uint64_t bytes) {
  const auto [found, inserted] =
      results_.try_emplace(job, options_.result_segment_bytes, options_.result_bytes_per_job_max);
  return found->second.Allocate(bytes);
}

void HostMemory::FreeResult(JobToken job, const SharedResult& result) {
  // The results of a job that was released are gone already.
  if (const auto found = results_.find(job); found != results_.end()) {
    found->second.Free(result);
  }
}

void HostMemory::ReleaseJob(JobToken job) {
  results_.erase(job);
}

int HostMemory::OpenResultSegment(JobToken job, std::uint32_t segment, std::uint64_t& bytes) const {
  const auto found = results_.find(job);
  return found == results_.end() ? -1 : found->second.OpenSegment(segment, bytes);
}

HostMemory::Stats HostMemory::stats() const {
  Stats stats;
  stats.scratch_in_use_bytes = scratch_.in_use_bytes();
  stats.scratch_cached_bytes = scratch_.cached_bytes();
  for (const auto& [job, results] : results_) {
    stats.result_in_use_bytes += results.in_use_bytes();
    stats.result_segment_bytes += results.segment_bytes_total();
  }
  return stats;
}

}  // namespace maypole::agent
