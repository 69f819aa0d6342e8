// The flags of a cluster on this machine, the same for `maypole local` and `maypole bench`.
#pragma once

#include <cstdint>
#include <string>

#include <absl/status/statusor.h>

#include "cli/local_cluster.h"

namespace CLI {
class App;
}

namespace maypole::cli {

struct ClusterFlags {
  bool use_namespaces = false;
  std::string rate;
  std::string congestion_control;
  std::uint32_t reduce_threads = 0;  // 0: the agent's default
};

// Registers the flags; `flags` must live until after the parse.
void AddClusterFlags(CLI::App& command, ClusterFlags& flags);

absl::StatusOr<LocalClusterOptions> ToClusterOptions(const ClusterFlags& flags,
                                                     std::uint32_t nodes,
                                                     std::uint32_t ranks_per_node);

}  // namespace maypole::cli
