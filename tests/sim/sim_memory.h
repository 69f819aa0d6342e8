// Plain heap behind the core's Memory interface, and a register of all bytes that may be touched.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "agent/memory/memory.h"

namespace maypole::sim {

// Every buffer that an agent may read or write now. Confined.
class Regions {
 public:
  void Add(agent::BufferView view);
  void Remove(std::byte* address);
  // Lies within one region; a view without bytes lies anywhere.
  bool Contains(agent::BufferView view) const;

 private:
  std::map<std::byte*, std::uint64_t> regions_;
};

// A region for as long as this or a copy lives.
class LentRegion {
 public:
  LentRegion(Regions& regions, agent::BufferView view)
      : address_(view.address, [&regions](std::byte* address) { regions.Remove(address); }) {
    regions.Add(view);
  }

 private:
  std::shared_ptr<std::byte> address_;
};

class SimMemory : public agent::Memory {
 public:
  explicit SimMemory(Regions& regions) : regions_(regions) {}

  ~SimMemory() override;

  agent::BufferView AllocateScratch(std::uint64_t bytes) override;
  void FreeScratch(agent::BufferView buffer) override;
  std::optional<agent::SharedResult> AllocateResult(JobToken job, std::uint64_t bytes) override;
  void FreeResult(JobToken job, const agent::SharedResult& result) override;
  void ReleaseJob(JobToken job) override;

  std::size_t scratch_in_use() const { return scratch_.size(); }

  std::size_t results_in_use() const { return results_.size(); }

  // Scratch of more bytes than this is not to be had.
  void LimitScratch(std::uint64_t bytes_max) { scratch_bytes_max_ = bytes_max; }

  // The next calls of AllocateScratch find no memory.
  void RefuseScratch(int times) { refuse_scratch_ = times; }

  // The next calls of AllocateResult find no memory.
  void RefuseResults(int times) { refuse_results_ = times; }

 private:
  std::byte* New(std::uint64_t bytes);
  void Delete(std::byte* address);

  Regions& regions_;
  std::map<std::byte*, std::uint64_t> scratch_;
  std::map<std::byte*, JobToken> results_;
  std::uint64_t next_offset_ = 0;
  int refuse_results_ = 0;
  int refuse_scratch_ = 0;
  std::uint64_t scratch_bytes_max_ = UINT64_MAX;
};

}  // namespace maypole::sim
