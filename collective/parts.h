// What each collective asks of its ranks: from whom every part of it comes, and who gets it.
//
// Pure, and the same on every member.
//
//   collective      parts                              from        to
//   all-reduce      the tensor                         everybody   everybody
//   reduce-scatter  block r of the tensor              everybody   rank r
//   all-gather      block r of the tensor              rank r      everybody
//   broadcast       the tensor                         root        everybody
//   reduce          the tensor                         everybody   root
//   all-to-all      block d of the tensor of rank s    rank s      rank d
//   send/receive    the tensor                         root        peer
//   barrier         none
//
// Of all but all-to-all the space is the tensor, and a part lies at the same place in all of them:
// in place, over the whole tensor. All-to-all has the tensors of all ranks in a row; block d of
// rank s becomes block s of rank d.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collective/schedule.h"

namespace maypole::collective {

// The member of each rank.
using Placement = std::vector<std::uint32_t>;

struct Layout {
  Collective collective = Collective::kAllReduce;
  ElementCount elements = 0;  // of one rank's tensor; of its input for kAllToAll
  std::uint32_t root = 0;     // kBroadcast, kReduce; the sender of kSendReceive
  std::uint32_t peer = 0;     // the receiver of kSendReceive
  std::vector<ElementCount>
      counts;  // kReduceScatter, kAllGather: of each rank's block; empty: equal blocks
  // Shared by the layouts of a job, which are compared by its address. May be null for kAllReduce
  // and kBarrier.
  std::shared_ptr<const Placement> placement;

  friend bool operator==(const Layout&, const Layout&) = default;
};

constexpr bool HasRoot(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kSendReceive;
}

// One block per rank.
constexpr bool HasBlocks(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllGather ||
         collective == Collective::kAllToAll;
}

// Blocks of different sizes are possible.
constexpr bool HasCounts(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllGather;
}

// The reduction counts; else elements are moved as they are.
constexpr bool Sums(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

// Every rank ends with all elements.
constexpr bool EverybodyGetsAll(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kAllGather ||
         collective == Collective::kBroadcast;
}

// Whether there is a maker for it; kAuto always is.
constexpr bool IsAvailable(Collective collective, Algorithm algorithm) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBarrier:
      return true;
    case Collective::kAllToAll:
    case Collective::kSendReceive:
      return algorithm == Algorithm::kAuto || algorithm == Algorithm::kDirect;
    default:
      return algorithm == Algorithm::kAuto || algorithm == Algorithm::kRing ||
             algorithm == Algorithm::kDirect || algorithm == Algorithm::kTree;
  }
}

// Of ranks, ascending, without the empty ones. The layout is valid: root and peer are ranks, counts
// add up to the elements, and equal blocks divide them.
std::vector<Part> PartsOf(const Layout& layout);

// Those that a member needs to know: of an all-to-all, whose parts are the square of the ranks, the
// ones from or to its own; else all. The layout has a placement.
std::vector<Part> PartsAt(Member member, const Layout& layout);

// The same with members in place of ranks.
std::vector<Part> InMembers(std::span<const Part> parts, const Placement& placement);

// The elements of the space.
ElementCount SpaceOf(const Layout& layout);

// The part that holds `element`: one of them does.
const Part& PartAt(std::span<const Part> parts, ElementCount element);

// `shape.parts`, or the one part of an all-reduce.
std::vector<Part> PartsOf(const Shape& shape);

}  // namespace maypole::collective
