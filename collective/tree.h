// Tree and double binary tree all-reduce: sums climb to a root, results descend.
//
// Pure: equal shapes give equal schedules.
// Shapes:    tree: member 0 is the root and has one child; below it is an in-order binary tree: a
//            member's height is the number of trailing zeros of its index, so odd members are
//            leaves. Every slice of the whole tensor climbs (a member adds its lower child's sum to
//            its own input, then its upper child's, and passes it on) and descends.
//            double tree: the first half of the tensor uses that tree, the second half its mirror
//            image (P even) or a rotation by one (P odd), in which the others are the leaves.
// Pipeline:  slices are independent; slice k's descent stands before slice k+1's climb.
// Cost:      2 ceil(log2 P) rounds for one slice, which then descends while others climb. A tree's
//            inner member sends and receives up to 3N, a leaf N each way; in the double tree nobody
//            sends or receives more than 2N.
// Numerics:  one association for every element of a tree, whatever its place in the tensor, and
//            one for each half of a double tree; finalised once, at the root. Every member ends
//            with the same bits.
// Source:    Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction
//            and scan", Parallel Computing 35(12), 2009.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/flow.h"
#include "collective/schedule.h"

namespace maypole::collective {

Schedule MakeTreeAllReduce(const Shape& shape);
Schedule MakeDoubleTreeAllReduce(const Shape& shape);

enum class TreeKind : std::uint8_t { kFirst, kSecond };

struct TreePlace {
  std::optional<std::uint32_t> parent;  // absent for the root
  std::vector<std::uint32_t> children;  // at most two
};

// `index` < `size`.
TreePlace PlaceInTree(TreeKind kind, std::uint32_t size, std::uint32_t index);

std::uint32_t RootOfTree(TreeKind kind, std::uint32_t size);

// Phases for other makers. The root holds the sum afterwards, or everybody the result.
void TreeReduce(Flow& flow, const Team& team, TreeKind kind, Block units, bool complete);
void TreeSpread(Flow& flow, const Team& team, TreeKind kind, Block units);

}  // namespace maypole::collective
