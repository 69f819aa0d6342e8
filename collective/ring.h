// Ring all-reduce: which slices a member passes to its successor, and after which arrivals.
//
// Pure: equal shapes give equal schedules.
// Shapes:    chunk c (ChunkOf) starts at member c and travels the ring twice, less two hops: P-1
//            hops collect every member's input (reduce-scatter), P-1 more hand on the finished
//            chunk (all-gather). In round r member i sends chunk i-r to i+1 and receives chunk
//            i-r-1 from i-1 (mod P).
// Pipeline:  a slice waits only for its own arrival in the round before, never for its neighbours.
//            The list has rounds ascending, and slices ascending within a round.
// Cost:      2(P-1) rounds; a member sends and receives 2(P-1)/P of the elements.
// Numerics:  chunk c is summed in the order c, c+1, ..., c-1 (mod P), each partial sum rounded in
//            the accumulator type, and finalised once, at member c-1; every member ends with the
//            same bits. The order depends on the chunk, hence on the tensor's size: direct.h has
//            one that does not.
// Source:    Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
//            workstations", J. Parallel Distrib. Comput. 69(2), 2009.
#pragma once

#include <cstdint>
#include <span>

#include "collective/flow.h"
#include "collective/schedule.h"

namespace maypole::collective {

Schedule MakeRingAllReduce(const Shape& shape);

// Phases for other makers: `blocks` has team.size() entries; block b starts at index b and is
// complete at RingOwner.
void RingReduce(Flow& flow, const Team& team, std::span<const Block> blocks, bool complete);
void RingSpread(Flow& flow, const Team& team, std::span<const Block> blocks);

inline std::uint32_t RingOwner(std::uint32_t team_size, std::uint32_t block) {
  return (block + team_size - 1) % team_size;
}

}  // namespace maypole::collective
