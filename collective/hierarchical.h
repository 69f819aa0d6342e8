// Hierarchical all-reduce: any number of levels, each with an algorithm of its own.
//
// Pure: equal shapes give equal schedules.
// Shapes:    Shape::levels, innermost first. At a level below the last a group reduces so that
//            every block of the tensor has one owner in the group (with ring, direct and
//            halving-doubling: all share; with a tree: its root); the owners of a block in all
//            groups are the team that reduces it at the level above. The last level is one group.
//            Finished blocks go back the same way.
//            So 8 nodes of 8 members reduce-scatter inside a node, all-reduce 8 chunks across at
//            the same time, each among the 8 members that own it, and all-gather inside.
//
// Uneven:    a block is cut for the largest group of its level; a smaller group gives its members
//            several neighbouring parts.
// Pipeline:  the tensor is cut into units that no level cuts again; a unit climbs as soon as it is
//            summed.
// Cost:      rounds add up over the levels. With even groups of g members, a member sends
//            2N(g-1)/g inside and, of N/g, what the levels above send.
// Numerics:  sums of sums, each rounded in the accumulator type; finalised once per element, by one
//            member. Every member ends with the same bits.
// Source:    the multi-level scheme of Thakur and Gropp, "Improving the performance of collective
//            operations in MPICH", EuroPVM/MPI 2003; for the 2D case see also Ying et al., "Image
//            classification at supercomputer scale", 2018.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/schedule.h"

namespace maypole::collective {

// HierarchyProblem(shape) is empty.
Schedule MakeHierarchicalAllReduce(const Shape& shape);

// Why shape.levels are none of shape.members members, with the value; empty if they are.
std::string HierarchyProblem(const Shape& shape);

// Even levels: {8, 4} is groups of 8 members, four of those in the next. The product is the number
// of members.
std::vector<Level> EvenLevels(const std::vector<std::uint32_t>& sizes,
                              const std::vector<Algorithm>& algorithms);

}  // namespace maypole::collective
