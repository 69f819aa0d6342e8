#include "agent/segment/slot_ring.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "proto/futex.h"
#include "proto/text.h"

namespace maypole::agent {
namespace {

// Copies once: the fence keeps the compiler from reading the shared bytes again where the copy is
// used.
SlotRequest CopyRequest(const SlotRequest& shared) {
  SlotRequest copy;
  std::memcpy(&copy, &shared, sizeof(copy));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return copy;
}

}  // namespace

SlotRing::SlotRing(ControlSegment& control) : control_(control) {
  control_.header.magic = kSegmentMagic;
  control_.header.protocol = kClientProtocol;
  control_.header.slot_count = kSlotCount;
  control_.header.ring_entries = kRingEntries;
}

std::optional<SlotRing::Entry> SlotRing::Take() {
  if (!violation_.empty()) {
    return std::nullopt;
  }
  if (head_ == tail_) {
    tail_ = control_.header.submit_tail.load(std::memory_order_acquire);
    if (tail_ == head_) {
      return std::nullopt;
    }
    if (tail_ - head_ > kRingEntries) {  // also if it went back
      return Violate("its submission ring jumped from " + std::to_string(head_) + " to " +
                     std::to_string(tail_) + ", more than its " + std::to_string(kRingEntries) +
                     " entries");
    }
  }
  const std::uint32_t slot =
      control_.header.submit_ring[head_ % kRingEntries].load(std::memory_order_relaxed);
  ++head_;
  if (slot >= kSlotCount) {
    return Violate("it submitted slot " + std::to_string(slot) + " of " +
                   std::to_string(kSlotCount));
  }
  const auto state =
      static_cast<SlotState>(control_.slots[slot].state.load(std::memory_order_acquire));
  if (uses_[slot] == Use::kIdle && state == SlotState::kSubmitted) {
    Entry entry{slot, false, CopyRequest(control_.slots[slot].request)};
    uses_[slot] =
        (entry.request.flags & kSlotSharedResult) != 0 ? Use::kInFlightShared : Use::kInFlight;
    return entry;
  }
  if (uses_[slot] == Use::kHoldsResult && state == SlotState::kReleased) {
    uses_[slot] = Use::kIdle;
    control_.slots[slot].state.store(static_cast<std::uint32_t>(SlotState::kFree),
                                     std::memory_order_release);
    return Entry{slot, true, {}};
  }
  return Violate("it entered slot " + std::to_string(slot) + " in state " +
                 std::to_string(static_cast<std::uint32_t>(state)) +
                 ", which is not its turn to enter");
}

void SlotRing::Complete(std::uint32_t slot, const Outcome& outcome, const SharedResult& result) {
  if (slot >= kSlotCount ||
      (uses_[slot] != Use::kInFlight && uses_[slot] != Use::kInFlightShared)) {
    return;
  }
  const bool holds_result = outcome.ok() && uses_[slot] == Use::kInFlightShared;
  uses_[slot] = holds_result ? Use::kHoldsResult : Use::kIdle;
  Slot& entry = control_.slots[slot];
  entry.outcome.code = static_cast<std::uint32_t>(outcome.code);
  entry.outcome.result_segment = holds_result ? result.segment : 0;
  entry.outcome.result_offset = holds_result ? result.offset : 0;
  entry.outcome.error_bytes = 0;
  entry.outcome.culprit_bytes = 0;
  if (!outcome.ok()) {
    entry.outcome.error_bytes =
        static_cast<std::uint16_t>(StoreText(entry.outcome.error, outcome.text));
    entry.outcome.culprit_bytes =
        static_cast<std::uint16_t>(StoreText(entry.outcome.culprits, outcome.culprits));
  }
  // Sequentially consistent, both: either we see the waiter, or it sees that the slot is done.
  entry.state.store(static_cast<std::uint32_t>(SlotState::kDone));
  if (entry.waiters.load() != 0) {
    FutexWakeAll(entry.state);
  }
}

void SlotRing::Fail(const Outcome& outcome) {
  ControlHeader& header = control_.header;
  if (header.session_code.load() != 0) {
    return;  // the first reason is the cause, and a client may be reading it
  }
  header.session_error_bytes =
      static_cast<std::uint16_t>(StoreText(header.session_error, outcome.text));
  header.session_culprit_bytes =
      static_cast<std::uint16_t>(StoreText(header.session_culprits, outcome.culprits));
  header.session_code.store(static_cast<std::uint32_t>(outcome.code));
  for (const Slot& slot : control_.slots) {
    if (slot.waiters.load() != 0) {
      FutexWakeAll(slot.state);
    }
  }
}

std::optional<SlotRing::Entry> SlotRing::Violate(std::string text) {
  violation_ = std::move(text);
  return std::nullopt;
}

}  // namespace maypole::agent
