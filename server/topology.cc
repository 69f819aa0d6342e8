#include "server/topology.h"

#include <unordered_map>

namespace maypole::server {
namespace {

constexpr std::size_t kNodesInReason = 8;

std::string ReasonOf(const std::vector<PlannedMember>& ring) {
  std::string reason = "ring in the order of each node's lowest rank:";
  for (std::size_t i = 0; i < ring.size() && i < kNodesInReason; ++i) {
    reason += " " + ring[i].node + " (" + std::to_string(ring[i].ranks.front().value()) + ")";
  }
  if (ring.size() > kNodesInReason) {
    reason += " and " + std::to_string(ring.size() - kNodesInReason) + " more";
  }
  return reason + "; so neighbours in rank are neighbours in the ring";
}

}  // namespace

Topology PlanTopology(const std::map<Rank, std::string>& node_of_rank) {
  Topology topology;
  std::unordered_map<std::string, std::size_t> place;
  for (const auto& [rank, node] :
       node_of_rank) {  // ascending, so a node enters with its lowest rank
    const auto [it, is_new] = place.try_emplace(node, topology.ring.size());
    if (is_new) {
      topology.ring.push_back({.node = node, .ranks = {}});
    }
    topology.ring[it->second].ranks.push_back(rank);
  }
  topology.reason = ReasonOf(topology.ring);
  return topology;
}

}  // namespace maypole::server
