#include "agent/transport/ucx/selection.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace maypole::agent {
namespace {

struct Family {
  const char* name;
  std::vector<std::string> members;  // UCX's transports behind the name
};

// In the order of UCX_TLS; UCX chooses among them by their speed.
const std::vector<Family>& Families() {
  static const auto* const families = new std::vector<Family>{{"rc", {"rc_verbs", "rc_mlx5"}},
                                                              {"ud", {"ud_verbs", "ud_mlx5"}},
                                                              {"dc", {"dc_mlx5"}},
                                                              {"tcp", {"tcp"}}};
  return *families;
}

std::vector<std::string> SplitList(const std::string& list) {
  return absl::StrSplit(list, absl::ByAnyChar(", "), absl::SkipEmpty());
}

// "tcp on lo, tcp on eth0": what can be chosen.
std::string DescribeNetwork(const std::vector<UcxResource>& resources) {
  std::vector<std::string> lines;
  for (const UcxResource& resource : resources) {
    if (resource.is_network) {
      lines.push_back(absl::StrCat(resource.transport, " on ", resource.device));
    }
  }
  return lines.empty() ? "nothing (is an interface up and has it an address?)"
                       : absl::StrJoin(lines, ", ");
}

bool Offers(const Family& family,
            const std::vector<std::string>& devices,
            const std::vector<UcxResource>& resources) {
  return std::any_of(resources.begin(), resources.end(), [&](const UcxResource& resource) {
    return resource.is_network && std::count(devices.begin(), devices.end(), resource.device) > 0 &&
           std::count(family.members.begin(), family.members.end(), resource.transport) > 0;
  });
}

absl::Status CheckDevices(const std::vector<std::string>& devices,
                          const std::vector<UcxResource>& resources) {
  if (devices.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--interface: name the network device that reaches the other agents (lo if "
                     "all run here). UCX offers ",
                     DescribeNetwork(resources)));
  }
  for (const std::string& device : devices) {
    if (std::none_of(resources.begin(), resources.end(), [&](const UcxResource& resource) {
          return resource.is_network && resource.device == device;
        })) {
      return absl::InvalidArgumentError(
          absl::StrCat("--interface: \"",
                       device,
                       "\" is not a device that UCX can use. It offers ",
                       DescribeNetwork(resources)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTransports(const std::vector<std::string>& wanted,
                             const std::vector<std::string>& devices,
                             const std::vector<UcxResource>& resources) {
  for (const std::string& name : wanted) {
    if (name == "self") {
      continue;
    }
    const auto family = std::find_if(Families().begin(),
                                     Families().end(),
                                     [&](const Family& known) { return known.name == name; });
    if (family == Families().end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--ucx-tls: \"",
                       name,
                       "\" is none of auto, rc, ud, dc, tcp, self. Shared memory is no way between "
                       "agents: UCX does not report the death of a peer there"));
    }
    if (!Offers(*family, devices, resources)) {
      return absl::InvalidArgumentError(absl::StrCat("--ucx-tls: \"",
                                                     name,
                                                     "\" is not available on ",
                                                     absl::StrJoin(devices, ","),
                                                     ". UCX offers ",
                                                     DescribeNetwork(resources)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UcxSelection> SelectUcx(const std::string& transports,
                                       const std::string& devices,
                                       const std::vector<UcxResource>& resources) {
  const std::vector<std::string> device_list = SplitList(devices);
  if (absl::Status status = CheckDevices(device_list, resources); !status.ok()) {
    return status;
  }
  std::vector<std::string> wanted = SplitList(transports);
  if (wanted == std::vector<std::string>{"auto"}) {
    wanted.clear();
    for (const Family& family : Families()) {
      if (Offers(family, device_list, resources)) {
        wanted.push_back(family.name);
      }
    }
  }
  if (absl::Status status = CheckTransports(wanted, device_list, resources); !status.ok()) {
    return status;
  }
  std::erase(wanted, "self");
  if (wanted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ucx-tls: \"",
                     transports,
                     "\" names no transport that reaches another agent. UCX offers ",
                     DescribeNetwork(resources)));
  }
  UcxSelection selection;
  selection.has_tcp = std::count(wanted.begin(), wanted.end(), "tcp") > 0;
  wanted.push_back("self");
  selection.transports = absl::StrJoin(wanted, ",");
  selection.devices = absl::StrJoin(device_list, ",");
  return selection;
}

}  // namespace maypole::agent
