// What UCX could use on this machine: pairs of transport and device, as `ucx_info -d` shows them.
// For choosing at start and for `maypole doctor`.
#pragma once

#include <string>
#include <vector>

namespace maypole::agent {

struct UcxResource {
  std::string transport;  // "tcp", "rc_mlx5", "posix"
  std::string device;     // "eth0", "mlx5_0:1", "memory"
  bool is_network = false;
};

// Opens every memory domain once: some milliseconds. Empty if UCX itself fails.
std::vector<UcxResource> ListUcxResources();

}  // namespace maypole::agent
