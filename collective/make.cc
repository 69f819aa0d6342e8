#include "collective/make.h"

#include "collective/direct.h"
#include "collective/exchange.h"
#include "collective/halving_doubling.h"
#include "collective/hierarchical.h"
#include "collective/naive.h"
#include "collective/owned.h"
#include "collective/parts.h"
#include "collective/ring.h"
#include "collective/tree.h"
#include "common/check.h"

namespace maypole::collective {

Schedule MakeSchedule(Algorithm algorithm, const Shape& shape) {
  MAYPOLE_CHECK(algorithm != Algorithm::kAuto && IsAvailable(shape.collective, algorithm));
  const bool is_all_reduce = shape.parts.empty() || (shape.parts.front().from == kEverybody &&
                                                     shape.parts.front().to == kEverybody);
  if (!is_all_reduce) {
    return algorithm == Algorithm::kDirect ? MakeExchange(shape) : MakeOwned(algorithm, shape);
  }
  switch (algorithm) {
    case Algorithm::kAuto:
    case Algorithm::kRing:
      break;
    case Algorithm::kDirect:
      return MakeDirectAllReduce(shape);
    case Algorithm::kNaive:
      return MakeNaiveAllReduce(shape);
    case Algorithm::kTree:
      return MakeTreeAllReduce(shape);
    case Algorithm::kDoubleTree:
      return MakeDoubleTreeAllReduce(shape);
    case Algorithm::kHalvingDoubling:
      return MakeHalvingDoublingAllReduce(shape);
    case Algorithm::kHierarchical:
      return MakeHierarchicalAllReduce(shape);
  }
  return MakeRingAllReduce(shape);
}

std::vector<Schedule> MakeSchedules(Algorithm algorithm, const Shape& shape) {
  std::vector<Schedule> all;
  all.reserve(shape.members);
  for (std::uint32_t member = 0; member < shape.members; ++member) {
    Shape own = shape;
    own.self = Member(member);
    all.push_back(MakeSchedule(algorithm, own));
  }
  return all;
}

}  // namespace maypole::collective
