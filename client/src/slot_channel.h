// The client's side of the slot protocol (proto/segment_layout.h): takes a free slot, submits a
// request, sleeps until it is done, gives the slot back.
//
// Knows only the control segment and how to ring, so the tests run it against the agent's side in
// plain memory. Threads: guarded; any. One slot belongs to one thread between Submit and Release.
// Ownership: borrows the control segment.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "common/error_code.h"
#include "common/time.h"
#include "proto/segment_layout.h"

namespace maypole::client::internal {

class SlotChannel {
 public:
  // `ring` wakes the agent; it is called with the channel's lock held.
  SlotChannel(ControlSegment& control, std::function<void()> ring);

  // The slot in which `request` is now in flight; empty if all are taken.
  std::optional<std::uint32_t> Submit(const SlotRequest& request);

  bool IsDone(std::uint32_t slot) const;
  // Returns when the slot is done, at the latest after `timeout`, perhaps earlier.
  void Sleep(std::uint32_t slot, Duration timeout);
  // Wakes all threads that sleep.
  void WakeAll();

  // Of a slot that is done.
  const SlotOutcome& outcome(std::uint32_t slot) const { return control_.slots[slot].outcome; }

  enum class Release { kSlot, kSlotAndResult };
  // Gives a done slot back; kSlotAndResult after the success of an op with a shared result, and
  // only then.
  void Give(std::uint32_t slot, Release release);

  // Grows while the agent runs.
  std::uint64_t agent_beats() const { return control_.header.agent_beats.load(); }

  // Not ok when the agent has ended the session.
  Outcome SessionOutcome() const;

 private:
  std::optional<std::uint32_t> TakeFreeSlot();
  void Enter(std::uint32_t slot);

  ControlSegment& control_;
  std::function<void()> ring_;
  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> released_;  // free as soon as the agent says so
  std::uint64_t tail_ = 0;
};

}  // namespace maypole::client::internal
