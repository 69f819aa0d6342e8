// Proves by symbolic execution that the schedules of all members do what they should, in every
// order that the network and the threads may choose. For tests, debug builds and tools; never on a
// data path.
//
// Pure. Checked, in this order:
//   form      the parts are in order and hold all elements; each member is itself; all agree on
//   members, elements, collective and algorithm;
//             ranges lie inside one part and are not empty; peers exist; `after` names earlier
//             steps; ordinals count up; buffers suit the kind of step
//   messages  every send meets one receive by its ordinal, of an equal range, and vice versa;
//             finished elements (of kResult, or the input of a part from one member) travel to
//             kResult only, unfinished ones never into it without a combination
//   progress  nobody waits in a circle, even if a send is over only when its receive is
//             (rendezvous); steps wait for fixed others, so one order that ends proves all of them
//   reads     nothing is read before it is written; kPartial and kResult are read in exactly the
//             ranges in which they were written; writers and readers of a range stand in the list
//             in the order in which they run, so that an engine may pair them by range and list
//   races     two accesses of the same range, one of them writing, are ordered by `after` or by
//             messages; kResult is taken to lie where kInput lies, which matters where it is a sum
//   results   every element of kResult, on every member that gets it, is written once, with every
//             member's input exactly once (or with that of the one member that it comes from),
//             summed in the same association on all members: the same bits everywhere. Members that
//             do not get it never write it
// Time: about linear in the number of steps for the schedules of this folder, a microsecond each.
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

// `schedules[m]` is that of member m. `parts` are what they should achieve, of members; empty: the
// one part of an all-reduce.
Verdict VerifySchedules(std::span<const Schedule> schedules, std::span<const Part> parts = {});

}  // namespace maypole::collective
