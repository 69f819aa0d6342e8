// Direct all-reduce: every member sums one chunk itself, straight from everybody's input.
//
// Pure: equal shapes give equal schedules.
// Shapes:    member j owns chunk j (ChunkOf). Round 1: everybody sends its input of chunk j to j,
//            who sums. Round 2: j sends the finished chunk to everybody. Slices are independent of
//            each other. Member i begins with its successor i+1, so that at any time every link in
//            has about one sender.
// Cost:      2 rounds; a member sends and receives 2(P-1)/P of the elements, in 2(P-1) messages per
//            slice.
// Numerics:  every element is ((v0 + v1) + v2) + ... in the order of Shape::sum_order, whatever its
//            place in the tensor and whoever sums it: the same bits for every size, bucket and
//            chunk. Nothing is rounded to a half type before the sum is complete. Every member ends
//            with the same bits.
// Caveats:   incast: P-1 members send to one at the same time, and a switch with shallow buffers
//            drops frames. Because of the fixed order a slice that arrives early has to wait: up to
//            P-1 of them for every slice in progress.
// Source:    the pairwise-exchange reduce-scatter, with the matching all-gather, of Thakur,
//            Rabenseifner and Gropp, "Optimization of collective communication operations in
//            MPICH", Int. J. High Perform. Comput. Appl. 19(1), 2005; here no exchange waits for
//            another.
#pragma once

#include "collective/schedule.h"

namespace maypole::collective {

Schedule MakeDirectAllReduce(const Shape& shape);

}  // namespace maypole::collective
