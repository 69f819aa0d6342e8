// Which network interface leads to an address.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace maypole::agent {

// The interface from which this machine would reach `host_port` ("10.0.0.1:7700"); sends nothing.
// Errors: kInvalidArgument if the host cannot be resolved or reached; the text names --interface.
absl::StatusOr<std::string> InterfaceTowards(const std::string& host_port);

// "10.0.0.3:7710", for people: the address of the first of `interfaces` ("mlx5_0:1,eth0") that has
// one; without the port if it is 0.
std::string DescribeEndpoint(const std::string& interfaces, std::uint16_t port);

}  // namespace maypole::agent
