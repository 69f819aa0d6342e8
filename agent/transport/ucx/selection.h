// Which UCX transports and devices carry frames. Named explicitly, never left to UCX: its own
// choice takes shared memory between agents of one host, which bypasses the network under test, and
// which in error-handling mode it cannot use or never ends.
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/transport/ucx/resources.h"

namespace maypole::agent {

struct UcxSelection {
  std::string transports;  // for UCX_TLS
  std::string devices;     // for UCX_NET_DEVICES
  bool has_tcp = false;
};

// `transports`: "auto" (all of rc, ud, dc and tcp that the devices offer) or a list of them.
// `devices`: a list of network interfaces ("eth0") and RDMA ports ("mlx5_0:1"). Lists are separated
// by commas. Errors: kInvalidArgument, naming the option, the value, and what there is on this
// machine.
absl::StatusOr<UcxSelection> SelectUcx(const std::string& transports,
                                       const std::string& devices,
                                       const std::vector<UcxResource>& resources);

}  // namespace maypole::agent
