// How a chunk is cut into the slices that are pipelined: every member cuts alike.
//
// Pure. The slices of a range are as even as alignment allows, none is longer than
// `slice_elements`, and their number is the smallest possible, so there is no short tail. Where
// `slice_elements` is a multiple of 64, inner borders lie multiples of 64 elements from the
// beginning.
#pragma once

#include <vector>

#include "common/quantity.h"

namespace maypole::collective {

// Empty for an empty range. `slice_elements` > 0.
std::vector<ElementRange> SlicesOf(ElementRange range, ElementCount slice_elements);

}  // namespace maypole::collective
