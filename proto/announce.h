// Bodies of the control frames between agents (proto/frame.h).
//
// kAnnounce: an agent's ranks have submitted an op; sent once to every other member (of a
// send/receive: to the one that has the other rank) when all of them have (flags 0), and once
// earlier as news about a stalled op (flags kAnnouncePartial: nothing is matched on it). An op
// starts on an agent when announces of all members are there and agree, so no gradient byte moves
// before.
//
//   u16 name bytes | name | u8 algorithm | u32 slice bytes | u16 groups | groups x { u8 collective,
//   u8 dtype, u8 reduction, u8 algorithm, u32 root, u32 peer, u64 elements, u64 counts, u32 ranks,
//   ranks x u32, u8 blocks, blocks x u64 }
//
// kAbort, kJobFailed:   u8 code | u16 text bytes | text | u16 culprit bytes | culprits
//
// Little endian, no padding. Decoders refuse anything that is cut short, too long or out of range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/dtype.h"
#include "common/error_code.h"
#include "common/ids.h"
#include "common/quantity.h"

namespace maypole {

// FrameHeader::flags of kAnnounce.
inline constexpr std::uint8_t kAnnouncePartial = 1;
// FrameHeader::flags of kJobFailed.
inline constexpr std::uint8_t kRankLeft = 1;   // it closed its session in peace
inline constexpr std::uint8_t kAgentLost = 2;  // a whole agent is gone

// What all ranks of an op must agree on. collective and algorithm are numbers of
// collective/schedule.h.
struct OpShape {
  std::uint8_t collective = 0;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  std::uint8_t algorithm = 0;
  std::uint32_t root = 0;  // 0 where there is none
  std::uint32_t peer = 0;
  ElementCount elements = 0;
  std::uint64_t counts = 0;  // hash of the blocks' sizes; 0: equal blocks

  friend bool operator==(const OpShape&, const OpShape&) = default;
};

// So many blocks are told to every other agent, whatever the size of the job.
inline constexpr std::size_t kAnnounceBlocksMax = 64;

// The ranks of one agent that submitted the same shape.
struct AnnounceGroup {
  OpShape shape;
  std::vector<Rank> ranks;
  std::vector<ElementCount> blocks = {};  // sizes of the first ones, for people; empty: equal
};

struct Announce {
  std::string name;
  // How the sender would run the op. All run it as the first member of the epoch says, so they need
  // not hold the same tuning table. The algorithm is a number of collective/schedule.h; the groups'
  // is what was asked for.
  std::uint8_t algorithm = 0;
  std::uint32_t slice_bytes = 0;
  std::vector<AnnounceGroup> groups;
};

std::vector<std::byte> EncodeAnnounce(const Announce& announce);
std::optional<Announce> DecodeAnnounce(std::span<const std::byte> bytes);

std::vector<std::byte> EncodeOutcome(const Outcome& outcome);
std::optional<Outcome> DecodeOutcome(std::span<const std::byte> bytes);

}  // namespace maypole
