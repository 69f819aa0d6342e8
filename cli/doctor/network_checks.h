// Checks of UCX, RDMA, interfaces and the agent's socket.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/finding.h"

namespace maypole::cli {

// Names of the RDMA devices that have an active port; `root` stands before /sys.
std::vector<std::string> RdmaDevices(const std::string& root);
Finding CheckRdma(const std::vector<std::string>& devices);

// From what `ucx_info -v` and `ucx_info -d` print; both empty if the tool is not there.
Finding CheckUcx(const std::string& version_output, const std::string& device_output);
// Runs ucx_info; empty if it is missing or fails.
std::string UcxInfo(const std::string& flag);

Finding CheckCongestionControl(const std::string& root);

struct InterfaceAddress {
  std::string interface;
  std::string address;
};

std::vector<InterfaceAddress> InterfaceAddresses();

// UCX over TCP cannot tell a peer from a stranger: its port must only be reachable by members.
// `chosen` is what the agent's --interface will be, such as "mlx5_0:1,eth0"; empty if not yet
// decided.
Finding CheckExposure(const std::string& chosen, const std::vector<InterfaceAddress>& addresses);

// Is anybody outside able to send to this address: not loopback, link-local, private or shared
// (carrier's) range?
bool IsPublicAddress(const std::string& address);

Finding CheckAgentSocket(const std::string& path);

}  // namespace maypole::cli
