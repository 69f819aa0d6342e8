// Which algorithm and slice size is fastest from which size on, by the cost model.
//
// Pure: equal links give equal tables, so members who were given the same costs choose alike. Not
// in use while no costs are known: select.h is the rule then.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "collective/cost.h"
#include "collective/schedule.h"

namespace maypole::collective {

struct TuningRow {
  Collective collective = Collective::kAllReduce;
  std::uint64_t bytes_begin = 0;  // of the tensor, in [begin, end)
  std::uint64_t bytes_end = std::numeric_limits<std::uint64_t>::max();
  Algorithm algorithm = Algorithm::kRing;
  std::uint64_t slice_bytes = kDefaultSliceBytes;
  double seconds = 0;  // predicted at `seconds_at`, the smallest modelled size in the range
  std::uint64_t seconds_at = 0;
  std::string reason;  // for a person
};

struct TuningTable {
  std::vector<TuningRow> rows;  // by collective, then ascending, without gaps

  // Null if there is no row for the collective.
  const TuningRow* Find(Collective collective, std::uint64_t bytes) const;
};

// Of algorithms whose predicted times differ by less, the one that stresses a network least wins:
// ring, then halving-doubling, double tree, hierarchical, tree, direct (whose incast the model does
// not know).
inline constexpr double kTie = 0.03;

// For `members` > 0 on links of one kind. `levels`, where known, are a hierarchy of all of them.
TuningTable MakeTuningTable(std::uint32_t members,
                            LinkModel link,
                            std::span<const LevelModel> levels = {});

}  // namespace maypole::collective
