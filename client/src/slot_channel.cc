#include "client/src/slot_channel.h"

#include <string>
#include <utility>

#include "proto/futex.h"
#include "proto/text.h"

namespace maypole::client::internal {
namespace {

constexpr auto kFree = static_cast<std::uint32_t>(SlotState::kFree);
constexpr auto kSubmitted = static_cast<std::uint32_t>(SlotState::kSubmitted);
constexpr auto kDone = static_cast<std::uint32_t>(SlotState::kDone);
constexpr auto kReleased = static_cast<std::uint32_t>(SlotState::kReleased);

}  // namespace

SlotChannel::SlotChannel(ControlSegment& control, std::function<void()> ring)
    : control_(control), ring_(std::move(ring)) {
  for (std::uint32_t slot = kSlotCount; slot > 0; --slot) {
    free_.push_back(slot - 1);  // slot 0 first
  }
}

std::optional<std::uint32_t> SlotChannel::Submit(const SlotRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto slot = TakeFreeSlot();
  if (slot) {
    control_.slots[*slot].request = request;
    control_.slots[*slot].state.store(kSubmitted, std::memory_order_release);
    Enter(*slot);
  }
  return slot;
}

std::optional<std::uint32_t> SlotChannel::TakeFreeSlot() {
  if (free_.empty()) {
    std::erase_if(released_, [this](std::uint32_t slot) {
      // Acquire: the agent's reading of the old request comes before our writing of the next.
      const bool is_free = control_.slots[slot].state.load(std::memory_order_acquire) == kFree;
      if (is_free) {
        free_.push_back(slot);
      }
      return is_free;
    });
  }
  if (free_.empty()) {
    return std::nullopt;
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotChannel::Enter(std::uint32_t slot) {
  control_.header.submit_ring[tail_ % kRingEntries].store(slot, std::memory_order_relaxed);
  ++tail_;
  // Sequentially consistent, both: either the agent sees the tail before it sleeps, or we see that
  // it sleeps.
  control_.header.submit_tail.store(tail_);
  if (control_.header.agent_sleeping.load() != 0) {
    ring_();
  }
}

bool SlotChannel::IsDone(std::uint32_t slot) const {
  return control_.slots[slot].state.load(std::memory_order_acquire) == kDone;
}

void SlotChannel::Sleep(std::uint32_t slot, Duration timeout) {
  Slot& entry = control_.slots[slot];
  entry.waiters.fetch_add(1);
  // Sequentially consistent with the agent's store of the state and its look at the waiters.
  const std::uint32_t state = entry.state.load();
  if (state != kDone && control_.header.session_code.load() == 0) {
    FutexWait(entry.state, state, timeout);
  }
  entry.waiters.fetch_sub(1);
}

void SlotChannel::WakeAll() {
  for (const Slot& slot : control_.slots) {
    if (slot.waiters.load() != 0) {
      FutexWakeAll(slot.state);
    }
  }
}

void SlotChannel::Give(std::uint32_t slot, Release release) {
  const std::lock_guard lock(mutex_);
  if (release == Release::kSlot) {
    control_.slots[slot].state.store(kFree, std::memory_order_relaxed);
    free_.push_back(slot);
    return;
  }
  control_.slots[slot].state.store(kReleased, std::memory_order_release);
  released_.push_back(slot);
  Enter(slot);
}

Outcome SlotChannel::SessionOutcome() const {
  const ControlHeader& header = control_.header;
  const std::uint32_t code = header.session_code.load(std::memory_order_acquire);
  if (code == 0) {
    return {};
  }
  return {static_cast<ErrorCode>(code),
          std::string(LoadText(header.session_error, header.session_error_bytes)),
          std::string(LoadText(header.session_culprits, header.session_culprit_bytes))};
}

}  // namespace maypole::client::internal
