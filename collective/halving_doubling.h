// Recursive halving and doubling all-reduce, for any number of members.
//
// Pure: equal shapes give equal schedules.
// Shapes:    Q is the largest power of two up to P, and the tensor is cut into Q chunks. Members
//            from Q on hand their whole input to the member Q below them (folding). Halving: at
//            distance Q/2, Q/4, ..., 1 a member keeps the half of what it holds in which its own
//            chunk lies and sends the other half to its partner, who keeps that. Then member i has
//            the sum of chunk i. Doubling: the same exchanges backwards with finished chunks; the
//            folded members are sent each chunk as it comes.
// Pipeline:  a slice of a chunk waits only for itself in the stage before. A stage sends first what
//            its receiver sends on in the next.
// Cost:      2 log2 Q rounds, and 2 more where P is no power of two; a member sends and receives
//            2(Q-1)/Q N, and those with a folded member N more each way.
// Numerics:  a binary tree of partial sums, of which each is rounded in the accumulator type; since
//            both operands of a sum are interchangeable, every chunk has the same association,
//            whatever its place in the tensor; finalised once, at the chunk's member. Every member
//            ends with the same bits.
// Caveats:   a message is one slice of one chunk, so a stage sends up to Q/2 messages.
// Source:    Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Thakur,
//            Rabenseifner and Gropp, "Optimization of collective communication operations in
//            MPICH", Int. J. High Perform. Comput. Appl. 19(1), 2005.
#pragma once

#include <cstdint>
#include <span>

#include "collective/flow.h"
#include "collective/schedule.h"

namespace maypole::collective {

Schedule MakeHalvingDoublingAllReduce(const Shape& shape);

// Phases for other makers: `blocks` has bit_floor(team.size()) entries, block b ends at index b.
void HalvingReduce(Flow& flow, const Team& team, std::span<const Block> blocks, bool complete);
void DoublingSpread(Flow& flow, const Team& team, std::span<const Block> blocks);

}  // namespace maypole::collective
