#include "collective/ring.h"

#include <algorithm>
#include <vector>

namespace maypole::collective {
namespace {

// In `round` of the whole ring a member sends what it received in the round before.
Block OutgoingIn(std::uint32_t round, const Team& team, std::span<const Block> blocks) {
  const std::uint32_t size = team.size();
  return blocks[(team.self + size - round % size) % size];
}

Block IncomingIn(std::uint32_t round, const Team& team, std::span<const Block> blocks) {
  return OutgoingIn(round + 1, team, blocks);
}

}  // namespace

void RingReduce(Flow& flow, const Team& team, std::span<const Block> blocks, bool complete) {
  const std::uint32_t rounds = team.size() - 1;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const Block outgoing = OutgoingIn(round, team, blocks);
    const Block incoming = IncomingIn(round, team, blocks);
    for (UnitIndex k = 0; k < std::max(outgoing.size(), incoming.size()); ++k) {
      if (k < outgoing.size()) {
        flow.Send(outgoing.begin + k, team.at(team.self + 1));
      }
      if (k < incoming.size()) {
        flow.Combine(incoming.begin + k,
                     team.at(team.self + team.size() - 1),
                     complete && round == rounds - 1);
      }
    }
  }
}

void RingSpread(Flow& flow, const Team& team, std::span<const Block> blocks) {
  const std::uint32_t rounds = team.size() - 1;
  for (std::uint32_t round = rounds; round < 2 * rounds; ++round) {
    const Block outgoing = OutgoingIn(round, team, blocks);
    const Block incoming = IncomingIn(round, team, blocks);
    for (UnitIndex k = 0; k < std::max(outgoing.size(), incoming.size()); ++k) {
      if (k < outgoing.size()) {
        flow.Send(outgoing.begin + k, team.at(team.self + 1));
      }
      if (k < incoming.size()) {
        flow.Take(incoming.begin + k, team.at(team.self + team.size() - 1));
      }
    }
  }
}

Schedule MakeRingAllReduce(const Shape& shape) {
  if (shape.members == 1) {
    return CopyOfInput(Algorithm::kRing, shape);
  }
  std::vector<Block> blocks;
  Flow flow(Algorithm::kRing, shape, CutIntoChunks(shape, shape.members, blocks));
  const Team team = Team::Everybody(shape);
  RingReduce(flow, team, blocks, true);
  RingSpread(flow, team, blocks);
  return flow.Finish();
}

}  // namespace maypole::collective
