// Naive all-reduce: everybody sends everything to everybody and each sums for itself. The baseline
// that the others are counted against; nobody should want it.
//
// Pure: equal shapes give equal schedules.
// Shapes:    the whole tensor, in slices that are independent of each other. A member sends a slice
//            to one peer after the other, its successor first, each when the send before is over.
// Cost:      one round; a member sends (P-1) N and receives (P-1) N: 2(P-1) N together.
// Numerics:  the association of direct.h, ((v0 + v1) + v2) + ..., computed by every member: the
//            same bits everywhere.
// Source:    the textbook's all-to-all broadcast followed by a local sum.
// Note:      the sends of a slice form a chain because the result may overwrite the input that they
//            read, and no answer ever tells that the last of them has been received.
#pragma once

#include "collective/schedule.h"

namespace maypole::collective {

Schedule MakeNaiveAllReduce(const Shape& shape);

}  // namespace maypole::collective
