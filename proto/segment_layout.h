// The bytes that a client and its agent share, and who may write what.
//
// Memory: one *control segment* per session (this layout), made by the agent: a memfd sealed against shrinking and growing,
// passed as a descriptor. *Data segments* (plain bytes) are made on request in the same way; a *result segment* of the job
// is passed read-only. Places in them are (segment number, offset), never pointers.
//
//   0            ControlHeader                 (12288 bytes)
//   12288        Slot[slot_count]              (1024 bytes each)
//
// Submission: the client owns a slot in state kFree. It fills the fields, stores state = kSubmitted (release), puts the
// slot's index into submit_ring[submit_tail % kRingEntries], stores submit_tail + 1 (release), and if agent_sleeping is not 0
// (seq_cst) writes 8 bytes to the doorbell eventfd.
// Completion: the agent writes the outcome fields, stores state = kDone (release) and wakes the futex on `state` if `waiters` is not 0.
// Release: the client reads the outcome and either stores state = kFree, or, for a shared result, stores kReleased
// and rings again with the slot's index; the agent gives the result memory back and stores kFree.
//
// Trust: the agent copies a slot once, validates the copy and never reads the slot's request fields again; the client can hurt
// only its own job. The agent reads no index or length from here without a bound.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace maypole {

inline constexpr std::uint32_t kSegmentMagic = 0x5359414d;  // "MAYS"
// Raised by any change to this file or to proto/handshake.h; a client and an agent with different values refuse each other.
inline constexpr std::uint32_t kClientProtocol = 1;

inline constexpr std::uint32_t kSlotCount = 1024;
inline constexpr std::uint32_t kRingEntries = 2048;  // > kSlotCount: submit and release together never overflow it
inline constexpr std::size_t kNameBytesMax = 255;
inline constexpr std::size_t kErrorTextBytes = 512;
inline constexpr std::size_t kCulpritBytes = 128;

enum class SlotState : std::uint32_t {
  kFree = 0,       // client
  kSubmitted = 1,  // client -> agent
  kDone = 2,       // agent -> client
  kReleased = 3,   // client -> agent: a shared result is not needed any more
};

// Bits of Slot::flags; any other bit is refused.
enum SlotFlags : std::uint32_t {
  kSlotSharedResult = 1u << 0,  // out of place: the agent provides the result, one copy for all ranks of the node
  kSlotOverwrite = 1u << 1,     // in place and the input need not be restored if the op fails
};

struct alignas(64) Slot {
  // -- written by both, in turn
  std::atomic<std::uint32_t> state;
  std::atomic<std::uint32_t> waiters;  // client threads that sleep on `state`
  // -- request: written by the client before kSubmitted
  std::uint8_t collective;   // collective::Collective
  std::uint8_t dtype;        // DType
  std::uint8_t reduction;    // Reduction
  std::uint8_t algorithm;    // collective::Algorithm; 0 = automatic
  std::uint32_t flags;       // SlotFlags
  std::int32_t priority;     // higher goes first
  std::uint32_t segment;     // data segment of the tensor
  std::uint64_t offset;      // its first byte there; aligned to the element size
  std::uint64_t elements;
  std::int64_t timeout_ns;   // from submission; <= 0: the job's default
  std::uint64_t reserved;
  std::uint16_t name_bytes;
  char name[kNameBytesMax + 1];  // UTF-8, not terminated
  // -- outcome: written by the agent before kDone
  std::uint8_t code;             // ErrorCode
  std::uint64_t result_offset;   // kSlotSharedResult: place in `result_segment`
  std::uint32_t result_segment;
  std::uint16_t error_bytes;
  std::uint16_t culprit_bytes;
  char error[kErrorTextBytes];
  char culprits[kCulpritBytes];
};

struct alignas(4096) ControlHeader {
  std::uint32_t magic;
  std::uint32_t protocol;
  std::uint32_t slot_count;
  std::uint32_t ring_entries;
  alignas(64) std::atomic<std::uint32_t> agent_sleeping;  // agent: 1 while it must be woken by the doorbell
  // agent: not 0 when the session is over; session_error says why. Every later call of the client fails with it.
  alignas(64) std::atomic<std::uint32_t> session_code;
  std::uint32_t session_error_bytes;
  char session_error[kErrorTextBytes];
  char session_culprits[kCulpritBytes];
  alignas(64) std::atomic<std::uint64_t> submit_tail;  // client; the agent keeps its own head in its own memory
  alignas(64) std::uint32_t submit_ring[kRingEntries];
};

inline constexpr std::size_t kControlBytes = sizeof(ControlHeader) + kSlotCount * sizeof(Slot);

static_assert(sizeof(Slot) == 1024 && std::is_standard_layout_v<Slot>);
static_assert(sizeof(ControlHeader) == 12288 && std::is_standard_layout_v<ControlHeader>);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace maypole
