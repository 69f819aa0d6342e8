// Proves by symbolic execution that the schedules of all members do what they should, in every
// order that the network and the threads may choose. For tests, debug builds and tools; never on a
// data path.
//
// Pure. Checked, in this order:
//   form       each member is itself, all agree on members, elements and collective; ranges lie
//   inside and are not
//              empty; peers exist; `after` names earlier steps; ordinals count up; buffers suit the
//              kind of step
//   messages   every send meets one receive by its ordinal, of an equal range, and vice versa;
//   finished elements travel
//              from kResult to kResult only, unfinished ones never into it without a combination
//   progress   nobody waits in a circle, even if a send is over only when its receive is
//   (rendezvous); as
//              steps only ever wait for fixed others, one order that ends proves that every order
//              does
//   reads      nothing is read before it is written; a kPartial range is read exactly as one step
//   wrote it races      two accesses of the same range, one of them writing, are ordered by `after`
//   or by messages; kResult is
//              taken to lie where kInput lies
//   results    every element of kResult, on every member, is written once, with every member's
//   input exactly once,
//              summed in the same association on all members: the same bits everywhere
// Time: about linear in the number of steps for the schedules of this folder. 64 members are no
// effort, 4096 are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collective/schedule.h"

namespace maypole::collective {

struct SumOrder {
  ElementRange range;
  std::string association;  // "((0+1)+2)": numbers are members; (a+b) is (b+a)

  friend bool operator==(const SumOrder&, const SumOrder&) = default;
};

struct Verdict {
  bool ok = false;
  std::string problem;  // the first one found, for a person; empty if ok
  std::vector<SumOrder>
      sums;  // if ok: how each element is summed, ascending, equal neighbours joined
};

// `schedules[m]` is that of member m.
Verdict VerifySchedules(std::span<const Schedule> schedules);

}  // namespace maypole::collective
