#include "collective/owned.h"

#include <vector>

#include "collective/flow.h"
#include "collective/parts.h"
#include "collective/ring.h"
#include "collective/slices.h"
#include "collective/tree.h"
#include "common/check.h"

namespace maypole::collective {
namespace {

std::uint32_t OwnerOf(const Part& part) {
  MAYPOLE_CHECK((part.from == kEverybody) != (part.to == kEverybody));
  return part.is_sum() ? part.to : part.from;
}

// The units owned by member 0, by member 1, ...
std::vector<ElementRange> CutByOwner(const Shape& shape, std::vector<Block>& by_owner) {
  std::vector<ElementRange> units;
  for (std::uint32_t owner = 0; owner < shape.members; ++owner) {
    const auto begin = static_cast<UnitIndex>(units.size());
    for (const Part& part : shape.parts) {
      if (OwnerOf(part) == owner) {
        const auto slices = SlicesOf(part.range, shape.slice_elements);
        units.insert(units.end(), slices.begin(), slices.end());
      }
    }
    by_owner.push_back({begin, static_cast<UnitIndex>(units.size())});
  }
  return units;
}

void AppendRing(Flow& flow, const Shape& shape, const std::vector<Block>& by_owner, bool sums) {
  const Team team = Team::Everybody(shape);
  std::vector<Block> blocks(team.size());
  for (std::uint32_t block = 0; block < team.size(); ++block) {
    blocks[block] = by_owner[RingOwner(team.size(), block)];
  }
  if (sums) {
    RingReduce(flow, team, blocks, true);
  } else {
    RingSpread(flow, team, blocks);
  }
}

void AppendTrees(Flow& flow, const Shape& shape, const std::vector<Block>& by_owner, bool sums) {
  const Team everybody = Team::Everybody(shape);
  for (std::uint32_t owner = 0; owner < shape.members; ++owner) {
    Team team = everybody;
    team.self = (everybody.self + shape.members - owner) % shape.members;
    for (std::uint32_t index = 0; index < shape.members; ++index) {
      team.members[index] = everybody.at(owner + index);
    }
    if (sums) {
      TreeReduce(flow, team, TreeKind::kFirst, by_owner[owner], true);
    } else {
      TreeSpread(flow, team, TreeKind::kFirst, by_owner[owner]);
    }
  }
}

}  // namespace

Schedule MakeOwned(Algorithm algorithm, const Shape& shape) {
  if (shape.members == 1 || shape.parts.empty()) {
    return CopyOfInput(algorithm, shape);
  }
  std::vector<Block> by_owner;
  Flow flow(algorithm, shape, CutByOwner(shape, by_owner));
  const bool sums = shape.parts.front().is_sum();
  if (algorithm == Algorithm::kTree) {
    AppendTrees(flow, shape, by_owner, sums);
  } else {
    AppendRing(flow, shape, by_owner, sums);
  }
  if (!sums) {
    flow.Keep(by_owner[shape.self.value()]);
  }
  return flow.Finish();
}

}  // namespace maypole::collective
