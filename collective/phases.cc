#include "collective/phases.h"

#include <bit>

#include "collective/halving_doubling.h"
#include "collective/ring.h"
#include "collective/tree.h"
#include "common/check.h"

namespace maypole::collective {
namespace {

// The owner adds in the order of the team, beginning with itself.
void DirectReduce(Flow& flow, const Team& team, std::span<const Block> blocks, bool complete) {
  for (std::uint32_t distance = 1; distance < team.size(); ++distance) {
    const std::uint32_t owner = (team.self + distance) % team.size();
    flow.Send(blocks[owner], team.at(owner));
  }
  for (std::uint32_t distance = 1; distance < team.size(); ++distance) {
    flow.Combine(
        blocks[team.self], team.at(team.self + distance), complete && distance == team.size() - 1);
  }
}

void DirectSpread(Flow& flow, const Team& team, std::span<const Block> blocks) {
  for (std::uint32_t distance = 1; distance < team.size(); ++distance) {
    flow.Send(blocks[team.self], team.at(team.self + distance));
  }
  for (std::uint32_t distance = 1; distance < team.size(); ++distance) {
    const std::uint32_t owner = (team.self + distance) % team.size();
    flow.Take(blocks[owner], team.at(owner));
  }
}

}  // namespace

bool HasPhases(Algorithm algorithm) {
  return algorithm != Algorithm::kAuto && algorithm != Algorithm::kNaive &&
         algorithm != Algorithm::kHierarchical;
}

std::uint32_t BlockCount(Algorithm algorithm, std::uint32_t team_size) {
  MAYPOLE_CHECK(HasPhases(algorithm));
  switch (algorithm) {
    case Algorithm::kTree:
      return 1;
    case Algorithm::kDoubleTree:
      return 2;
    case Algorithm::kHalvingDoubling:
      return std::bit_floor(team_size);
    default:
      return team_size;
  }
}

std::uint32_t OwnerOf(Algorithm algorithm, std::uint32_t team_size, std::uint32_t block) {
  switch (algorithm) {
    case Algorithm::kRing:
      return RingOwner(team_size, block);
    case Algorithm::kTree:
    case Algorithm::kDoubleTree:
      return RootOfTree(block == 0 ? TreeKind::kFirst : TreeKind::kSecond, team_size);
    default:
      return block;
  }
}

void AppendReduce(Algorithm algorithm,
                  Flow& flow,
                  const Team& team,
                  std::span<const Block> blocks,
                  bool complete) {
  MAYPOLE_CHECK(blocks.size() == BlockCount(algorithm, team.size()));
  switch (algorithm) {
    case Algorithm::kRing:
      return RingReduce(flow, team, blocks, complete);
    case Algorithm::kTree:
      return TreeReduce(flow, team, TreeKind::kFirst, blocks[0], complete);
    case Algorithm::kDoubleTree:
      TreeReduce(flow, team, TreeKind::kFirst, blocks[0], complete);
      return TreeReduce(flow, team, TreeKind::kSecond, blocks[1], complete);
    case Algorithm::kHalvingDoubling:
      return HalvingReduce(flow, team, blocks, complete);
    default:
      return DirectReduce(flow, team, blocks, complete);
  }
}

void AppendSpread(Algorithm algorithm,
                  Flow& flow,
                  const Team& team,
                  std::span<const Block> blocks) {
  MAYPOLE_CHECK(blocks.size() == BlockCount(algorithm, team.size()));
  switch (algorithm) {
    case Algorithm::kRing:
      return RingSpread(flow, team, blocks);
    case Algorithm::kTree:
      return TreeSpread(flow, team, TreeKind::kFirst, blocks[0]);
    case Algorithm::kDoubleTree:
      TreeSpread(flow, team, TreeKind::kFirst, blocks[0]);
      return TreeSpread(flow, team, TreeKind::kSecond, blocks[1]);
    case Algorithm::kHalvingDoubling:
      return DoublingSpread(flow, team, blocks);
    default:
      return DirectSpread(flow, team, blocks);
  }
}

}  // namespace maypole::collective
