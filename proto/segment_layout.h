// The bytes that a client and its agent share, and who may write what. docs/segment_format.md has
// the pictures.
//
// Memory: one *control segment* per session (this layout), made by the agent: a memfd sealed
// against shrinking and growing, passed as a descriptor. *Data segments* (plain bytes) are made on
// request in the same way; a *result segment* of the job is passed read-only. Places in them are
// (segment number, offset), never pointers. Little endian.
//
//   0            ControlHeader                 (12288 bytes)
//   12288        Slot[slot_count]              (1024 bytes each)
//
// Submission: the client owns a slot in state kFree. It fills `request`, stores state = kSubmitted
// (release), puts the slot's index into submit_ring[submit_tail % kRingEntries], stores
// submit_tail + 1 (seq_cst), and if agent_sleeping (seq_cst) is not 0 writes 8 bytes to the
// doorbell eventfd. The agent stores agent_sleeping = 1 (seq_cst) and looks at submit_tail
// (seq_cst) once more before it sleeps: of the two, at least one sees the other. Nobody reads the
// eventfd: the agent watches it edge-triggered, so a client that drains it or makes it blocking
// harms only itself.
// Completion: the agent writes `outcome`, stores state = kDone (seq_cst) and wakes the futex on
// `state` if `waiters` (seq_cst) is not 0. The client raises `waiters` (seq_cst) and looks at
// `state` (seq_cst) before it sleeps: the same argument.
// Release: the client reads the outcome and either stores state = kFree, or, after the success of
// an op with kSlotSharedResult, stores kReleased and submits the slot's index once more; the agent
// gives the result memory back and stores kFree (release).
//
// Trust: the agent knows from its own memory which slots are in flight, copies a request once,
// validates the copy and never reads the request again; the client can hurt only its own job. The
// agent reads no index or length from here without a bound.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace maypole {

inline constexpr std::uint32_t kSegmentMagic = 0x5359414d;  // "MAYS"
// Raised by any change to this file or to proto/handshake.h; a client and an agent with different
// values refuse each other.
inline constexpr std::uint32_t kClientProtocol = 3;

inline constexpr std::uint32_t kSlotCount = 1024;
// A power of two > kSlotCount. A slot is never in the ring twice, so it cannot overflow.
inline constexpr std::uint32_t kRingEntries = 2048;
inline constexpr std::size_t kNameBytesMax = 255;
inline constexpr std::size_t kErrorTextBytes = 512;
inline constexpr std::size_t kCulpritBytes = 128;

enum class SlotState : std::uint32_t {
  kFree = 0,       // client
  kSubmitted = 1,  // client -> agent
  kDone = 2,       // agent -> client
  kReleased = 3,   // client -> agent: a shared result is not needed any more
};

// Bits of SlotRequest::flags; any other bit is refused.
enum SlotFlags : std::uint32_t {
  // Out of place: the agent provides the result, one copy for all ranks of the node.
  kSlotSharedResult = 1u << 0,
  // In place, and the input need not be restored if the op fails.
  kSlotOverwrite = 1u << 1,
};

// Written by the client before kSubmitted.
struct SlotRequest {
  std::uint8_t collective = 0;  // collective::Collective
  std::uint8_t dtype = 0;       // DType
  std::uint8_t reduction = 0;   // Reduction
  std::uint8_t algorithm = 0;   // collective::Algorithm; 0 = automatic
  std::uint32_t flags = 0;      // SlotFlags
  std::int32_t priority = 0;    // higher goes first
  std::uint32_t segment = 0;    // data segment of the tensor; ignored for zero elements
  std::uint64_t offset = 0;     // its first byte there; aligned to the element size
  std::uint64_t elements = 0;   // of the tensor
  std::int64_t timeout_ns = 0;  // from submission; <= 0: the job's default
  // Rank: of broadcast and reduce; the sender of send/receive. Else ignored.
  std::uint32_t root = 0;
  // Rank: the receiver of send/receive. Else ignored.
  std::uint32_t peer = 0;
  // All-to-all: where the result goes, as many elements as the tensor and apart from it. Else
  // ignored.
  std::uint64_t output_offset = 0;
  std::uint32_t output_segment = 0;
  // Reduce-scatter and all-gather: a table of u64, the elements of each rank's block, which the
  // agent copies when it takes the slot; its place is aligned to 8. 0 entries: equal blocks. Else
  // ignored.
  std::uint32_t counts_entries = 0;
  std::uint64_t counts_offset = 0;
  std::uint32_t counts_segment = 0;
  std::uint32_t reserved = 0;
  std::uint16_t name_bytes = 0;
  char name[kNameBytesMax + 1] = {};  // printable UTF-8, not terminated; empty: unnamed
};

// Written by the agent before kDone.
struct SlotOutcome {
  std::uint64_t result_offset = 0;  // kSlotSharedResult: place in `result_segment`
  std::uint32_t result_segment = 0;
  std::uint16_t error_bytes = 0;
  std::uint16_t culprit_bytes = 0;
  std::uint32_t code = 0;  // ErrorCode
  std::uint32_t reserved = 0;
  char error[kErrorTextBytes] = {};
  char culprits[kCulpritBytes] = {};
};

struct alignas(64) Slot {
  std::atomic<std::uint32_t> state;    // SlotState; written by both, in turn
  std::atomic<std::uint32_t> waiters;  // client: threads that sleep on `state`
  SlotRequest request;
  SlotOutcome outcome;
};

struct alignas(4096) ControlHeader {
  std::uint32_t magic;
  std::uint32_t protocol;
  std::uint32_t slot_count;
  std::uint32_t ring_entries;
  // agent: 1 while it must be woken by the doorbell
  alignas(64) std::atomic<std::uint32_t> agent_sleeping;
  // agent: grows while it runs, several times per lease while ops are in flight
  std::atomic<std::uint64_t> agent_beats;
  // agent: ErrorCode, not 0 when the session is over; the fields below, written before, say why.
  // Every later call of the client fails with it.
  alignas(64) std::atomic<std::uint32_t> session_code;
  std::uint16_t session_error_bytes;
  std::uint16_t session_culprit_bytes;
  char session_error[kErrorTextBytes];
  char session_culprits[kCulpritBytes];
  // client; the agent keeps its own head in its own memory
  alignas(64) std::atomic<std::uint64_t> submit_tail;
  // client (relaxed: ordered by submit_tail)
  alignas(64) std::atomic<std::uint32_t> submit_ring[kRingEntries];
};

struct ControlSegment {
  ControlHeader header;
  Slot slots[kSlotCount];
};

inline constexpr std::size_t kControlBytes = sizeof(ControlSegment);

static_assert(std::endian::native == std::endian::little);
static_assert(std::has_single_bit(kRingEntries) && kRingEntries > kSlotCount);
static_assert(std::is_trivially_copyable_v<SlotRequest> &&
              std::is_trivially_copyable_v<SlotOutcome>);
static_assert(sizeof(Slot) == 1024 && std::is_standard_layout_v<Slot>);
static_assert(sizeof(ControlHeader) == 12288 && std::is_standard_layout_v<ControlHeader>);
static_assert(kControlBytes == sizeof(ControlHeader) + kSlotCount * sizeof(Slot));
static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && sizeof(std::atomic<std::uint64_t>) == 8);

}  // namespace maypole
