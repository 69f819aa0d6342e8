// Members that need not be simulated, because another one does at every time what they do.
//
// Pure. A shift renames all members; if schedules and network stay the same under it, so does the
// course of the collective, and the first `period` members stand for all. A ring stays the same
// when it is turned, halving-doubling when the bits of all members are flipped alike.
// Not quite the same are: what breaks ties between messages of equal time; the member order of
// direct's sums, which costs no time; and the order in which the groups of a hierarchy pass on
// neighbouring slices. The tests bound what these change: 10 % behind shared uplinks and for
// hierarchies, nothing worth speaking of elsewhere.
#pragma once

#include <cstdint>

#include "collective/network.h"
#include "collective/schedule.h"

namespace maypole::collective {

struct Symmetry {
  enum class Shift : std::uint8_t { kTurn, kFlip };  // + or ^ a multiple of the period

  std::uint32_t members = 0;
  std::uint32_t period = 0;  // divides members; equal to it, there is no symmetry
  Shift shift = Shift::kTurn;

  Member RepresentativeOf(Member member) const { return Member(member.value() % period); }

  // Whom the representative of `member` has where `member` has `peer`.
  Member SeenBy(Member member, Member peer) const;

  static Symmetry None(std::uint32_t members) { return {members, members, Shift::kTurn}; }
};

// The smallest period that is known for an all-reduce. `network` is for shape.members.
Symmetry FindSymmetry(Algorithm algorithm, const Shape& shape, const Network& network);

}  // namespace maypole::collective
