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
  Outcome allocated = heap_.Allocate(bytes, Fill::kUndefined, buffer);
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

bool Staging::DropIdle() {
  const std::lock_guard lock(mutex_);
  const bool had_any = !idle_.empty();
  while (!idle_.empty()) {
    DropLargest();
  }
  return had_any;
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
