// The agent's side of the slot protocol (proto/segment_layout.h): takes what a client entered into
// its ring, writes outcomes back.
//
// Trusts nothing in the segment: which slots are in flight is kept here, and one that the client
// enters against the rules is a violation, which ends the session. Knows only the control segment,
// so the tests run it against the client's side in plain memory. Threads: confined to the loop's.
// Ownership: borrows the control segment.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "agent/memory/memory.h"
#include "common/error_code.h"
#include "proto/segment_layout.h"

namespace maypole::agent {

class SlotRing {
 public:
  // What a client entered: a request (a copy), or the end of its interest in a shared result.
  struct Entry {
    std::uint32_t slot = 0;
    bool is_release = false;
    SlotRequest request;
  };

  // `control` is zeroed memory; it is filled in here.
  explicit SlotRing(ControlSegment& control);

  // The next entry. Empty if there is none, or after a violation.
  std::optional<Entry> Take();

  // What the client did against the rules; empty while it keeps them.
  const std::string& violation() const { return violation_; }

  std::uint64_t entries_taken() const { return head_; }

  // Ends an op. One whose slot is not in flight is ignored.
  void Complete(std::uint32_t slot, const Outcome& outcome, const SharedResult& result);
  // Ends the session for the client: all its calls fail with `outcome` from now on.
  void Fail(const Outcome& outcome);

  void Beat() { control_.header.agent_beats.fetch_add(1, std::memory_order_relaxed); }

  // The client rings from now on.
  void Arm() { control_.header.agent_sleeping.store(1); }

  void Disarm() { control_.header.agent_sleeping.store(0); }

  // Meant for after Arm: sequentially consistent with it, see the layout.
  bool HasEntries() const {
    return violation_.empty() && control_.header.submit_tail.load() != head_;
  }

 private:
  enum class Use : std::uint8_t { kIdle, kInFlight, kInFlightShared, kHoldsResult };

  std::optional<Entry> Violate(std::string text);

  ControlSegment& control_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;  // as last seen; at most kRingEntries beyond head_
  std::array<Use, kSlotCount> uses_{};
  std::string violation_;
};

}  // namespace maypole::agent
