// AgentStats as Prometheus sees them; docs/metrics.md explains every metric.
#pragma once

#include <memory>
#include <string>

#include "agent/telemetry/agent_stats.h"

namespace prometheus {
class Collectable;
}

namespace maypole::agent {

std::shared_ptr<prometheus::Collectable> MakeAgentCollector(std::shared_ptr<const AgentStats> stats,
                                                            std::string version);

}  // namespace maypole::agent
