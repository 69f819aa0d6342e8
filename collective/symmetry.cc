#include "collective/symmetry.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "common/check.h"

namespace maypole::collective {
namespace {

// Whether the network looks the same from every member `period` further on.
bool Repeats(const Network& network, std::uint32_t members, std::uint32_t period) {
  const auto slowness = [&](std::uint32_t member) {
    return member < network.slowness.size() ? network.slowness[member] : 1;
  };
  const auto& group_of = network.group_of;
  const std::uint32_t groups = group_of.empty() ? 0 : group_of[period - 1] + 1;
  for (std::uint32_t member = period; member < members; ++member) {
    if (slowness(member) != slowness(member % period) ||
        (!group_of.empty() &&
         group_of[member] != group_of[member % period] + member / period * groups)) {
      return false;
    }
  }
  return true;
}

// Smallest multiple of `unit` that divides `members` and with which the network repeats.
std::uint32_t PeriodOf(const Network& network, std::uint32_t members, std::uint32_t unit) {
  if (!network.paths.empty()) {
    return members;
  }
  std::uint32_t period = unit;
  while (period < members && (members % period != 0 || !Repeats(network, members, period))) {
    period += unit;
  }
  return std::min(period, members);
}

bool EvenChunks(ElementCount elements, std::uint32_t chunks) {
  return ChunkOf(elements, chunks, 0).size() == ChunkOf(elements, chunks, chunks - 1).size();
}

// How a team of `size`, each with a share of its own, may be renamed.
std::optional<Symmetry::Shift> ShiftOf(Algorithm algorithm, std::uint32_t size) {
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kDirect:
    case Algorithm::kNaive:
      return Symmetry::Shift::kTurn;
    case Algorithm::kHalvingDoubling:
      return std::has_single_bit(size) ? std::optional(Symmetry::Shift::kFlip) : std::nullopt;
    default:
      return std::nullopt;
  }
}

// Even levels, every one of which cuts evenly what the one below leaves: then whole groups of the
// last level can be renamed.
bool EvenHierarchy(const Shape& shape) {
  ElementCount elements = shape.elements;
  for (const Level& level : shape.levels) {
    const std::uint32_t size = level.groups.front();
    const bool even = std::all_of(level.groups.begin(),
                                  level.groups.end(),
                                  [size](std::uint32_t group) { return group == size; });
    if (!even || !ShiftOf(level.algorithm, size) || !EvenChunks(elements, size)) {
      return false;
    }
    elements = ChunkOf(elements, size, 0).size();
  }
  return !shape.levels.empty();
}

}  // namespace

Member Symmetry::SeenBy(Member member, Member peer) const {
  const std::uint32_t by = member.value() - RepresentativeOf(member).value();
  return shift == Shift::kFlip ? Member(peer.value() ^ by)
                               : Member((peer.value() + members - by) % members);
}

Symmetry FindSymmetry(Algorithm algorithm, const Shape& shape, const Network& network) {
  const bool levels = algorithm == Algorithm::kHierarchical;
  const bool even =
      levels ? EvenHierarchy(shape)
             : algorithm == Algorithm::kNaive || EvenChunks(shape.elements, shape.members);
  if (!even) {
    return Symmetry::None(shape.members);
  }
  const std::uint32_t teams = levels ? shape.levels.back().groups.front() : shape.members;
  const auto shift = ShiftOf(levels ? shape.levels.back().algorithm : algorithm, teams);
  if (!shift) {
    return Symmetry::None(shape.members);
  }
  const std::uint32_t period = PeriodOf(network, shape.members, shape.members / teams);
  if (*shift == Symmetry::Shift::kFlip && !std::has_single_bit(period)) {
    return Symmetry::None(shape.members);
  }
  return {shape.members, period, *shift};
}

}  // namespace maypole::collective
