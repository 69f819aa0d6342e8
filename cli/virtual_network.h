// Nodes as network namespaces of this machine, joined by a bridge; every link may be shaped in both
// directions. Needs root.
//
// The namespaces have no names: they live as long as a process in them or this object, and vanish
// with the last one, so that nothing stays behind however we end. To look into one: nsenter -t PID
// -n, with PID an agent of that node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "common/unique_fd.h"

namespace maypole::cli {

struct VirtualNetworkOptions {
  std::uint32_t nodes = 1;         // at most 250
  double bits_per_second = 0;      // of every link, each way (tbf); 0: not shaped
  std::string congestion_control;  // TCP's, inside the namespaces; empty: the machine's
};

class VirtualNetwork {
 public:
  static constexpr const char* kInterface = "eth0";  // of every node

  static absl::StatusOr<VirtualNetwork> Create(const VirtualNetworkOptions& options);

  // Descriptors for setns.
  int node_namespace(std::uint32_t node) const { return nodes_.at(node).get(); }

  int switch_namespace() const { return switch_.get(); }

  static std::string NodeAddress(std::uint32_t node);
  static std::string SwitchAddress();

  // The TCP congestion control in effect there.
  const std::string& congestion_control() const { return congestion_control_; }

 private:
  VirtualNetwork() = default;

  absl::Status AddNode(const VirtualNetworkOptions& options);

  UniqueFd switch_;
  std::vector<UniqueFd> nodes_;
  std::string congestion_control_;
};

}  // namespace maypole::cli
