// In which order the agents of a job stand in its ring.
//
// Pure. So far by lowest rank, so that neighbours in rank are neighbours in the ring; measured link
// costs will be a further argument.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/ids.h"

namespace maypole::server {

struct PlannedMember {
  std::string node;
  std::vector<Rank> ranks;  // ascending

  friend bool operator==(const PlannedMember&, const PlannedMember&) = default;
};

struct Topology {
  std::vector<PlannedMember> ring;
  std::string reason;  // one sentence
};

Topology PlanTopology(const std::map<Rank, std::string>& node_of_rank);

}  // namespace maypole::server
