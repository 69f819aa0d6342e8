// What agents say to each other on the data plane: a fixed header, then a payload. The header's
// fields by offset:
//
//   0  u32 magic "MAYF" |  8  u64 job token       | 24  u64 op hash    | 40  u32 ordinal
//   4  u16 version      | 16  u32 epoch           | 32  u64 occurrence | 44  u32 reserved (0)
//   6  u8 kind          | 20  u32 sender (member) |                    | 48  u64 payload bytes
//   7  u8 flags         |                         |                    |
//
// Little endian; both sides are checked to be. The header travels as the UCX active-message header,
// the payload as its data. A receiver trusts nothing: Decode refuses other magic, version, kind or
// size, and the core then drops frames whose token, epoch or sender it does not know. A change of
// any byte here raises kFrameVersion.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace maypole {

inline constexpr std::uint32_t kFrameMagic = 0x4659414d;  // "MAYF"
inline constexpr std::uint16_t kFrameVersion = 3;

enum class FrameKind : std::uint8_t {
  kHello = 1,      // first frame to a peer after an epoch: proves that both hold the epoch's token
  kAnnounce = 2,   // "all my ranks submitted this op, with these values"; payload: proto/announce.h
  kData = 3,       // payload of one send step
  kAbort = 4,      // this op failed here; payload: code, text, culprits (proto/announce.h)
  kJobFailed = 5,  // a member of the fixed job is gone; payload as kAbort
  kHeartbeat = 6,  // nothing to say, still here
  kProbe = 7,      // one of a train that measures a link; payload: any bytes (docs/control_path.md)
  kProbeEcho = 8,  // the last frame of that train has come
};

// FrameHeader::flags of kProbeEcho: an op is in flight, measure later.
inline constexpr std::uint8_t kProbeBusy = 1;

struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  std::uint16_t version = kFrameVersion;
  FrameKind kind = FrameKind::kHeartbeat;
  std::uint8_t flags = 0;
  std::uint64_t token = 0;
  std::uint32_t epoch = 0;
  std::uint32_t sender = 0;
  std::uint64_t op = 0;          // hash of the op's name, of a send/receive also of its two ranks
  std::uint64_t occurrence = 0;  // how often this name was used before in this job (its step)
  std::uint32_t ordinal = 0;     // kData: see collective/schedule.h, Matching
  std::uint32_t reserved = 0;
  std::uint64_t payload_bytes = 0;
};

static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(FrameHeader) == 56 && std::is_trivially_copyable_v<FrameHeader>);
static_assert(offsetof(FrameHeader, token) == 8 && offsetof(FrameHeader, op) == 24 &&
              offsetof(FrameHeader, payload_bytes) == 48);

// Empty if `bytes` is not a frame header of this version.
inline std::optional<FrameHeader> DecodeFrameHeader(std::span<const std::byte> bytes) {
  FrameHeader header;
  if (bytes.size() != sizeof(header)) {
    return std::nullopt;
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto kind = static_cast<std::uint8_t>(header.kind);
  if (header.magic != kFrameMagic || header.version != kFrameVersion || header.reserved != 0 ||
      kind < static_cast<std::uint8_t>(FrameKind::kHello) ||
      kind > static_cast<std::uint8_t>(FrameKind::kProbeEcho)) {
    return std::nullopt;
  }
  return header;
}

}  // namespace maypole
