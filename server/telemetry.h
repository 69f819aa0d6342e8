// The coordinator's numbers for Prometheus, taken from one snapshot per scrape; docs/metrics.md
// explains them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/membership.h"

namespace prometheus {
class Collectable;
}

namespace maypole::server {

// `snapshot` is called by the threads of the HTTP endpoint.
std::shared_ptr<prometheus::Collectable> MakeCoordinatorCollector(
    std::string version, std::function<Snapshot()> snapshot);

}  // namespace maypole::server
