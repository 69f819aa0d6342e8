// Direct schedules of every collective but all-reduce: each part goes straight from those who have
// it to those who get it.
//
// Pure: equal shapes give equal schedules.
// Shapes:    a part from everybody is sent by all to the one who gets it, who sums in a fixed
//            order; a part from one member is sent by it to all who get it. Slices are independent
//            of each other. Member i begins with its successor i+1, so that at any time every link
//            in has about one sender.
// Cost:      one round. Reduce-scatter, all-gather and all-to-all: a member sends and receives
//            (P-1)/P of the elements. Broadcast and reduce: the root sends or receives (P-1) N.
// Numerics:  ((v0 + v1) + v2) + ... in the order of Shape::sum_order, whatever the element's place.
// Caveats:   incast at a reduce's root, and see direct.h.
// Source:    the pairwise exchanges of Thakur, Rabenseifner and Gropp, "Optimization of collective
//            communication operations in MPICH", Int. J. High Perform. Comput. Appl. 19(1), 2005;
//            here no exchange waits for another.
#pragma once

#include "collective/schedule.h"

namespace maypole::collective {

// No part is both from and to everybody.
Schedule MakeExchange(const Shape& shape);

}  // namespace maypole::collective
