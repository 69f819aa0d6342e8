// Which algorithm an op uses, and why.
//
// Pure, and the same on every member: all that it looks at is part of what the members agree on
// before an op starts.
#pragma once

#include <cstdint>
#include <string>

#include "collective/schedule.h"
#include "common/dtype.h"

namespace maypole::collective {

// Up to this size the 2(P-1) latencies of the ring outweigh the incast of direct.
inline constexpr std::uint64_t kDirectMaxBytes = 256 * 1024;

struct Choice {
  Algorithm algorithm = Algorithm::kRing;  // never kAuto
  std::string reason;                      // for a person
};

// `bytes` of the tensor in its own type. A `hint` other than kAuto, which the collective has, is
// followed. Half types are all-reduced and reduce-scattered directly at any size: their partial
// sums would travel the ring in twice the bytes. Broadcast and reduce go along a tree where the
// others go directly, as the root's link would carry P-1 tensors.
Choice Select(
    Collective collective, std::uint64_t bytes, std::uint32_t members, DType dtype, Algorithm hint);

}  // namespace maypole::collective
