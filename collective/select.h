// Which algorithm and slice size an op uses, and why.
//
// Pure, and cheap enough for every op. Members may hold different tables for a moment; the first
// member's choice counts and travels in its announce (proto/announce.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "collective/schedule.h"
#include "collective/tuning.h"
#include "common/dtype.h"

namespace maypole::collective {

// Where no table says anything: up to this size the 2(P-1) latencies of the ring outweigh the
// incast of direct.
inline constexpr std::uint64_t kDirectMaxBytes = 256 * 1024;

// What a slice may measure, whoever says so: smaller ones make more steps than there is memory for,
// larger ones are no frames.
inline constexpr std::uint64_t kSliceBytesMin = 4096;
inline constexpr std::uint64_t kSliceBytesMax = 64 << 20;

struct Choice {
  Algorithm algorithm = Algorithm::kRing;  // never kAuto
  std::uint64_t slice_bytes = 0;           // 0: as the agents are set
  const TuningRow* row = nullptr;          // of `table`, if one decided
  std::string_view reason;                 // for a person; as long as the table lives
};

// `bytes` of the tensor in its own type. What decides, in this order: a `hint` other than kAuto; a
// rule of the operator; for half types that are all-reduced or reduce-scattered direct at any size,
// as their partial sums would travel the ring in twice the bytes; the model; kDirectMaxBytes, below
// which broadcast and reduce go along a tree, as the root's link would carry P-1 tensors.
Choice Select(Collective collective,
              std::uint64_t bytes,
              std::uint32_t members,
              DType dtype,
              Algorithm hint,
              const TuningTable& table = {});

}  // namespace maypole::collective
