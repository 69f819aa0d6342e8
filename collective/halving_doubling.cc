#include "collective/halving_doubling.h"

#include <bit>
#include <vector>

namespace maypole::collective {
namespace {

// The units of `count` blocks from `first` on.
Block Join(std::span<const Block> blocks, std::uint32_t first, std::uint32_t count) {
  return {blocks[first].begin, blocks[first + count - 1].end};
}

// Blocks that `index` holds while it exchanges at `distance`.
Block HeldBy(std::span<const Block> blocks, std::uint32_t index, std::uint32_t distance) {
  return Join(blocks, index & ~(distance - 1), distance);
}

}  // namespace

void HalvingReduce(Flow& flow, const Team& team, std::span<const Block> blocks, bool complete) {
  const std::uint32_t core = std::bit_floor(team.size());
  const Block all = Join(blocks, 0, core);
  if (team.self >= core) {
    flow.Send(all, team.at(team.self - core));
    return;
  }
  if (team.self + core < team.size()) {
    flow.Combine(all, team.at(team.self + core), false);
  }
  for (std::uint32_t distance = core / 2; distance > 0; distance /= 2) {
    const std::uint32_t partner = team.self ^ distance;
    flow.Send(HeldBy(blocks, partner, distance), team.at(partner));
    flow.Combine(HeldBy(blocks, team.self, distance), team.at(partner), complete && distance == 1);
  }
}

void DoublingSpread(Flow& flow, const Team& team, std::span<const Block> blocks) {
  const std::uint32_t core = std::bit_floor(team.size());
  const bool folded = team.self >= core;
  const std::uint32_t self = folded ? team.self - core : team.self;
  // A chunk that the member of the core has goes on to the member folded into it.
  const auto hand_on = [&](Block units) {
    if (folded) {
      flow.Take(units, team.at(self));
    } else if (self + core < team.size()) {
      flow.Send(units, team.at(self + core));
    }
  };
  for (std::uint32_t distance = 1; distance < core; distance *= 2) {
    const std::uint32_t partner = self ^ distance;
    if (!folded) {
      flow.Send(HeldBy(blocks, self, distance), team.at(partner));
      flow.Take(HeldBy(blocks, partner, distance), team.at(partner));
    }
  }
  hand_on(blocks[self]);
  for (std::uint32_t distance = 1; distance < core; distance *= 2) {
    hand_on(HeldBy(blocks, self ^ distance, distance));
  }
}

Schedule MakeHalvingDoublingAllReduce(const Shape& shape) {
  if (shape.members == 1) {
    return CopyOfInput(Algorithm::kHalvingDoubling, shape);
  }
  std::vector<Block> blocks;
  Flow flow(Algorithm::kHalvingDoubling,
            shape,
            CutIntoChunks(shape, std::bit_floor(shape.members), blocks));
  const Team team = Team::Everybody(shape);
  HalvingReduce(flow, team, blocks, true);
  DoublingSpread(flow, team, blocks);
  return flow.Finish();
}

}  // namespace maypole::collective
