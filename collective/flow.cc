#include "collective/flow.h"

#include <utility>

#include "collective/slices.h"

namespace maypole::collective {

Team Team::Everybody(const Shape& shape) {
  Team team;
  team.self = shape.self.value();
  team.members.reserve(shape.members);
  for (std::uint32_t member = 0; member < shape.members; ++member) {
    team.members.emplace_back(member);
  }
  return team;
}

Flow::Flow(Algorithm algorithm, const Shape& shape, std::vector<ElementRange> units)
    : builder_(algorithm, shape) {
  copies_.reserve(units.size());
  for (const ElementRange unit : units) {
    copies_.push_back({.range = unit});
  }
}

void Flow::Send(UnitIndex unit, Member peer) {
  const Copy& copy = copies_[unit];
  builder_.Send(copy.buffer, copy.range, peer, {.first = copy.written_by});
}

void Flow::Combine(UnitIndex unit, Member peer, bool complete) {
  Copy& copy = copies_[unit];
  const Buffer target = complete ? Buffer::kResult : Buffer::kPartial;
  copy.written_by =
      builder_.ReceiveReduce(copy.buffer, copy.range, peer, target, {.first = copy.written_by});
  copy.buffer = target;
}

void Flow::Take(UnitIndex unit, Member peer) {
  Copy& copy = copies_[unit];
  copy.written_by = builder_.Receive(copy.range, peer, Buffer::kResult);
  copy.buffer = Buffer::kResult;
}

void Flow::Keep(Block units) {
  for (UnitIndex unit = units.begin; unit < units.end; ++unit) {
    builder_.Copy(copies_[unit].range);
  }
}

void Flow::Send(Block units, Member peer) {
  for (UnitIndex unit = units.begin; unit < units.end; ++unit) {
    Send(unit, peer);
  }
}

void Flow::Combine(Block units, Member peer, bool complete) {
  for (UnitIndex unit = units.begin; unit < units.end; ++unit) {
    Combine(unit, peer, complete);
  }
}

void Flow::Take(Block units, Member peer) {
  for (UnitIndex unit = units.begin; unit < units.end; ++unit) {
    Take(unit, peer);
  }
}

std::vector<ElementRange> CutIntoChunks(const Shape& shape,
                                        std::uint32_t parts,
                                        std::vector<Block>& blocks) {
  std::vector<ElementRange> units;
  for (std::uint32_t part = 0; part < parts; ++part) {
    const auto begin = static_cast<UnitIndex>(units.size());
    const auto slices = SlicesOf(ChunkOf(shape.elements, parts, part), shape.slice_elements);
    units.insert(units.end(), slices.begin(), slices.end());
    blocks.push_back({begin, static_cast<UnitIndex>(units.size())});
  }
  return units;
}

Schedule CopyOfInput(Algorithm algorithm, const Shape& shape) {
  ScheduleBuilder builder(algorithm, shape);
  builder.CopyAll();
  return builder.Take();
}

}  // namespace maypole::collective
