#include "client/src/staging.h"

#include <iterator>

namespace maypole::client::internal {

Outcome Staging::Take(std::size_t bytes, std::byte*& buffer) {
  const std::lock_guard lock(mutex_);
  const auto fit = idle_.lower_bound(bytes);
  if (fit != idle_.end() && fit->first / 2 <= bytes) {
    buffer = fit->second;
    idle_bytes_ -= fit->first;
    taken_.emplace(buffer, fit->first);
    idle_.erase(fit);
    return {};
  }
  Outcome allocated = AllocateLocked(bytes, Fill::kUndefined, buffer);
  if (allocated.ok()) {
    taken_.emplace(buffer, bytes);
  }
  return allocated;
}

void Staging::Give(std::byte* buffer) {
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(buffer);
  idle_bytes_ += taken->second;
  idle_.emplace(taken->second, buffer);
  taken_.erase(taken);
  while (idle_bytes_ > kIdleStagingBytesMax) {
    DropLargest();
  }
}

Outcome Staging::Allocate(std::size_t bytes, Fill fill, std::byte*& block) {
  const std::lock_guard lock(mutex_);
  return AllocateLocked(bytes, fill, block);
}

Outcome Staging::AllocateLocked(std::size_t bytes, Fill fill, std::byte*& block) {
  Outcome allocated = heap_.Allocate(bytes, fill, block);
  while (allocated.code == ErrorCode::kResourceExhausted && !idle_.empty()) {
    DropLargest();
    allocated = heap_.Allocate(bytes, fill, block);
  }
  return allocated;
}

void Staging::DropLargest() {
  const auto largest = std::prev(idle_.end());
  idle_bytes_ -= largest->first;
  heap_.Free(largest->second);
  idle_.erase(largest);
}

std::size_t Staging::IdleBytes() {
  const std::lock_guard lock(mutex_);
  return idle_bytes_;
}

}  // namespace maypole::client::internal
