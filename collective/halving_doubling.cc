#include "collective/halving_doubling.h"

#include <bit>
#include <vector>

namespace maypole::collective {
namespace {

// The blocks that `index` holds while it exchanges at `distance`, by their distance from its own:
// an order that both ends see alike, and in which the half that the next stage needs comes
// together.
enum class Order : std::uint8_t { kNearestFirst, kFarthestFirst };

template <typename Visit>
void ForEachHeld(std::span<const Block> blocks,
                 std::uint32_t index,
                 std::uint32_t distance,
                 Order order,
                 Visit visit) {
  for (std::uint32_t k = 0; k < distance; ++k) {
    visit(blocks[index ^ (order == Order::kNearestFirst ? k : distance - 1 - k)]);
  }
}

}  // namespace

void HalvingReduce(Flow& flow, const Team& team, std::span<const Block> blocks, bool complete) {
  const std::uint32_t core = std::bit_floor(team.size());
  const auto send = [&](std::uint32_t receiver, std::uint32_t distance, Member peer) {
    ForEachHeld(blocks, receiver, distance, Order::kFarthestFirst, [&](Block block) {
      flow.Send(block, peer);
    });
  };
  const auto combine = [&](std::uint32_t distance, Member peer, bool last) {
    ForEachHeld(blocks, team.self, distance, Order::kFarthestFirst, [&](Block block) {
      flow.Combine(block, peer, last);
    });
  };
  if (team.self >= core) {
    send(team.self - core, core, team.at(team.self - core));
    return;
  }
  if (team.self + core < team.size()) {
    combine(core, team.at(team.self + core), false);
  }
  for (std::uint32_t distance = core / 2; distance > 0; distance /= 2) {
    const std::uint32_t partner = team.self ^ distance;
    send(partner, distance, team.at(partner));
    combine(distance, team.at(partner), complete && distance == 1);
  }
}

void DoublingSpread(Flow& flow, const Team& team, std::span<const Block> blocks) {
  const std::uint32_t core = std::bit_floor(team.size());
  const auto send = [&](std::uint32_t distance, Member peer) {
    ForEachHeld(blocks, team.self, distance, Order::kNearestFirst, [&](Block block) {
      flow.Send(block, peer);
    });
  };
  const auto take = [&](std::uint32_t sender, std::uint32_t distance, Member peer) {
    ForEachHeld(blocks, sender, distance, Order::kNearestFirst, [&](Block block) {
      flow.Take(block, peer);
    });
  };
  if (team.self >= core) {
    take(team.self - core, core, team.at(team.self - core));
    return;
  }
  for (std::uint32_t distance = 1; distance < core; distance *= 2) {
    const std::uint32_t partner = team.self ^ distance;
    send(distance, team.at(partner));
    take(partner, distance, team.at(partner));
  }
  if (team.self + core < team.size()) {
    send(core, team.at(team.self + core));
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
