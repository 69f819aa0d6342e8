// The two halves of an all-reduce, by algorithm: a reduction that leaves each block with an owner,
// and the spreading of finished blocks from there.
//
// Pure. Internal to collective/: what hierarchical.h composes. Not for kAuto, kNaive and
// kHierarchical.
#pragma once

#include <cstdint>
#include <span>

#include "collective/flow.h"
#include "collective/schedule.h"

namespace maypole::collective {

bool HasPhases(Algorithm algorithm);

// Into how many blocks a team of `team_size` cuts what it reduces.
std::uint32_t BlockCount(Algorithm algorithm, std::uint32_t team_size);

// The index in the team of the member that ends with the sum of `block`.
std::uint32_t OwnerOf(Algorithm algorithm, std::uint32_t team_size, std::uint32_t block);

// `blocks` has BlockCount entries. The owner's last addition is `complete`. A team of one does
// nothing.
void AppendReduce(Algorithm algorithm,
                  Flow& flow,
                  const Team& team,
                  std::span<const Block> blocks,
                  bool complete);
void AppendSpread(Algorithm algorithm, Flow& flow, const Team& team, std::span<const Block> blocks);

}  // namespace maypole::collective
