// Where a node stands, as given to its agent.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace maypole::server {

// Outermost first: zone=a,rack=b.
using Labels = std::vector<std::pair<std::string, std::string>>;

}  // namespace maypole::server
