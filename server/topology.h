// How the agents of a job stand to each other: levels of groups, the order of the ring, and what
// its links cost.
//
// Pure. Without measured links and labels: by lowest rank, so that neighbours in rank are
// neighbours in the ring. With measured links the ring crosses slow and far links as seldom as
// possible (ring_order.h), and nodes that are much nearer to each other than to the rest form a
// group (groups.h); labels, where all nodes have them, say the groups instead. Groups stand
// together in the ring.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collective/schedule.h"
#include "collective/tuning.h"
#include "common/ids.h"
#include "server/labels.h"
#include "server/links.h"

namespace maypole::server {

struct PlannedMember {
  std::string node;
  std::vector<Rank> ranks;  // ascending

  friend bool operator==(const PlannedMember&, const PlannedMember&) = default;
};

struct Topology {
  std::vector<PlannedMember> ring;
  std::vector<collective::Level> levels;           // innermost first; empty: none
  std::optional<collective::MeasuredLinks> links;  // of this ring, if enough are measured
  std::string reason;                              // one sentence for each decision
};

// What the links of a ring that stands cost, by its levels; empty if fewer than half of the pairs
// and fewer than 32 links of each node (on average) are measured.
std::optional<collective::MeasuredLinks> CostsOf(const std::vector<std::string>& ring,
                                                 const std::vector<collective::Level>& levels,
                                                 const LinkTable& links);

Topology PlanTopology(const std::map<Rank, std::string>& node_of_rank,
                      const LinkTable& links = {},
                      const std::map<std::string, Labels>& labels = {});

}  // namespace maypole::server
