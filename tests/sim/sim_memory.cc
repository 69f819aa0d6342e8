#include "tests/sim/sim_memory.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "common/check.h"

namespace maypole::sim {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr int kNeverWritten = 0xa5;

}  // namespace

void Regions::Add(agent::BufferView view) {
  MAYPOLE_CHECK(regions_.emplace(view.address, view.bytes).second);
}

void Regions::Remove(std::byte* address) {
  MAYPOLE_CHECK(regions_.erase(address) == 1);
}

bool Regions::Contains(agent::BufferView view) const {
  if (view.bytes == 0) {
    return true;
  }
  auto region = regions_.upper_bound(view.address);
  if (region == regions_.begin()) {
    return false;
  }
  --region;
  return view.address + view.bytes <= region->first + region->second;
}

SimMemory::~SimMemory() {
  for (const auto& [address, bytes] : scratch_) {
    Delete(address);
  }
  for (const auto& [address, job] : results_) {
    Delete(address);
  }
}

std::byte* SimMemory::New(std::uint64_t bytes) {
  const std::uint64_t size = std::max<std::uint64_t>(bytes, 1);
  auto* address = static_cast<std::byte*>(::operator new(size, kAlignment));
  std::memset(address, kNeverWritten, size);
  regions_.Add({.address = address, .bytes = size});
  return address;
}

void SimMemory::Delete(std::byte* address) {
  regions_.Remove(address);
  ::operator delete(address, kAlignment);
}

agent::BufferView SimMemory::AllocateScratch(std::uint64_t bytes) {
  const bool is_refused = refuse_scratch_ > 0;
  refuse_scratch_ -= is_refused ? 1 : 0;
  if (is_refused || bytes > scratch_bytes_max_) {
    return {.address = nullptr, .bytes = bytes};
  }
  std::byte* address = New(bytes);
  scratch_[address] = bytes;
  return {.address = address, .bytes = bytes};
}

void SimMemory::FreeScratch(agent::BufferView buffer) {
  const auto found = scratch_.find(buffer.address);
  MAYPOLE_CHECK(found != scratch_.end() && found->second == buffer.bytes);
  scratch_.erase(found);
  Delete(buffer.address);
}

std::optional<agent::SharedResult> SimMemory::AllocateResult(JobToken job, std::uint64_t bytes) {
  if (refuse_results_ > 0) {
    --refuse_results_;
    return std::nullopt;
  }
  std::byte* address = New(bytes);
  results_.emplace(address, job);
  return agent::SharedResult{
      .segment = 1, .offset = next_offset_++, .view = {.address = address, .bytes = bytes}};
}

void SimMemory::FreeResult(JobToken job, const agent::SharedResult& result) {
  const auto found = results_.find(result.view.address);
  MAYPOLE_CHECK(found != results_.end() && found->second == job);
  results_.erase(found);
  Delete(result.view.address);
}

void SimMemory::ReleaseJob(JobToken job) {
  for (auto result = results_.begin(); result != results_.end();) {
    if (result->second == job) {
      Delete(result->first);
      result = results_.erase(result);
    } else {
      ++result;
    }
  }
}

}  // namespace maypole::sim
