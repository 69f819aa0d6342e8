// Which nodes form groups, and groups of groups. Pure.
//
// By labels, where all nodes have the same keys: nodes that agree in all of them are a group,
// groups that agree in all but the last are a group of the next level, and so on. Else by measured
// cost: join the nearest nodes first (a minimum spanning tree; Kruskal, "On the shortest spanning
// subtree of a graph", Proc. AMS 7(1), 1956). Where the next link costs at least kGap times as much
// as the one before, what has been joined so far is a level.
#pragma once

#include <string>
#include <vector>

#include "server/ring_order.h"
#include "server/topology.h"

namespace maypole::server {

inline constexpr double kGap = 3;

struct Groups {
  std::vector<Grouping> levels;  // innermost first; none joins all nodes or leaves each alone
  std::string reason;            // one sentence; empty without levels
};

// `labels` by node.
Groups GroupsByLabels(const std::vector<Labels>& labels);
Groups GroupsByCost(const LinkMatrix& links);

}  // namespace maypole::server
