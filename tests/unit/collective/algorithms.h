// The algorithms that need no hierarchy, for tests.
#pragma once

#include <array>

#include "collective/schedule.h"

namespace maypole::collective {

inline constexpr std::array kFlatAlgorithms = {Algorithm::kRing,
                                               Algorithm::kDirect,
                                               Algorithm::kNaive,
                                               Algorithm::kTree,
                                               Algorithm::kDoubleTree,
                                               Algorithm::kHalvingDoubling};

// Whether members own chunks; the others move the whole tensor, or half of it.
inline bool CutsChunks(Algorithm algorithm) {
  return algorithm == Algorithm::kRing || algorithm == Algorithm::kDirect ||
         algorithm == Algorithm::kHalvingDoubling;
}

}  // namespace maypole::collective
