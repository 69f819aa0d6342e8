// Ring and tree schedules of collectives whose every part has one owner, who gets its sum or has it
// for everybody: reduce-scatter, all-gather, broadcast, reduce.
//
// Pure: equal shapes give equal schedules.
// Shapes:    ring: the owner's parts begin at its successor and travel the ring to the owner,
//            summed on the way; or begin at the owner and travel P-1 hops. With all parts owned by
//            one member, that is a pipelined chain.
//            tree: the in-order binary tree of tree.h, its members rotated so that the owner is the
//            root.
// Pipeline:  a slice waits only for itself.
// Cost:      reduce-scatter and all-gather by ring: P-1 rounds, a member sends and receives N less
//            its own (its successor's) part. Broadcast: each member receives N once, as each but
//            the root sends N once in a reduce; P-1 rounds by ring, which passes on N per member,
//            ceil(log2 P) by tree, which passes on up to 2N.
// Numerics:  ring: o+1, o+2, ..., o for owner o; tree: along the tree; finalised once, at the
//            owner.
// Source:    see ring.h and tree.h; each is a phase of theirs.
#pragma once

#include "collective/schedule.h"

namespace maypole::collective {

// `algorithm` is kRing or kTree. Each part is either from or to everybody.
Schedule MakeOwned(Algorithm algorithm, const Shape& shape);

}  // namespace maypole::collective
