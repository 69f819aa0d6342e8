#include "cli/doctor/network_checks.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

#include "cli/child_process.h"
#include "cli/doctor/system_checks.h"
#include "common/unique_fd.h"

namespace maypole::cli {
namespace {

// The words after `label` in every line that has it: "#      Transport: tcp".
std::set<std::string> ValuesOf(const std::string& output, const std::string& label) {
  std::set<std::string> values;
  for (const absl::string_view part : absl::StrSplit(output, '\n')) {
    const std::string line(part);
    const std::size_t at = line.find(label);
    if (at != std::string::npos) {
      const std::vector<std::string> words =
          absl::StrSplit(line.substr(at + label.size()), ' ', absl::SkipEmpty());
      if (!words.empty()) {
        values.insert(words.front());
      }
    }
  }
  return values;
}

bool IsPublicV4(std::uint32_t address) {
  struct Block {
    std::uint32_t network;
    int bits;
  };

  constexpr std::array<Block, 6> kClosed = {{{0x0a000000, 8},     // 10/8
                                             {0x7f000000, 8},     // loopback
                                             {0x64400000, 10},    // shared by a carrier
                                             {0xa9fe0000, 16},    // link-local
                                             {0xac100000, 12},    // 172.16/12
                                             {0xc0a80000, 16}}};  // 192.168/16
  return std::none_of(kClosed.begin(), kClosed.end(), [address](const Block& block) {
    return (address >> (32 - block.bits)) == (block.network >> (32 - block.bits));
  });
}

}  // namespace

std::vector<std::string> RdmaDevices(const std::string& root) {
  std::vector<std::string> active;
  std::error_code ignored;
  for (const auto& device :
       std::filesystem::directory_iterator(root + "/sys/class/infiniband", ignored)) {
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", ignored)) {
      if (absl::StrContains(FirstLine(port.path() / "state"), "ACTIVE")) {
        active.push_back(
            absl::StrCat(device.path().filename().string(), ":", port.path().filename().string()));
      }
    }
  }
  std::sort(active.begin(), active.end());
  return active;
}

Finding CheckRdma(const std::vector<std::string>& devices) {
  if (devices.empty()) {
    return {Level::kOk, "RDMA", "no device with an active port; peers are reached over TCP", ""};
  }
  return {Level::kOk, "RDMA", absl::StrJoin(devices, ", "), ""};
}

std::string UcxInfo(const std::string& flag) {
  const UniqueFd out(memfd_create("ucx_info", MFD_CLOEXEC));
  ChildOptions options;
  options.argv = {"ucx_info", flag};
  options.stdout_fd = out.get();
  options.stderr_fd = out.get();
  absl::StatusOr<ChildProcess> tool = ChildProcess::Start(options);
  if (!tool.ok()) {
    return "";
  }
  const std::optional<ExitStatus> ended = tool->WaitFor(20);
  if (!ended || ended->code() != 0) {
    return "";
  }
  std::string text(static_cast<std::size_t>(lseek(out.get(), 0, SEEK_END)), '\0');
  return pread(out.get(), text.data(), text.size(), 0) < 0 ? "" : text;
}

Finding CheckUcx(const std::string& version_output, const std::string& device_output) {
  if (version_output.empty()) {
    return {Level::kWarn,
            "UCX",
            "ucx_info is not installed or fails, so its transports are not known",
            "apt-get install ucx-utils"};
  }
  const std::set<std::string> versions = ValuesOf(version_output, "Version");
  const std::set<std::string> transports = ValuesOf(device_output, "Transport:");
  const std::string text = absl::StrCat("version ",
                                        versions.empty() ? "unknown" : *versions.begin(),
                                        "; transports: ",
                                        absl::StrJoin(transports, " "),
                                        "; devices: ",
                                        absl::StrJoin(ValuesOf(device_output, "Device:"), " "));
  if (!transports.contains("tcp")) {
    return {
        Level::kFail, "UCX", text, "install UCX with its TCP transport (apt-get install libucx0)"};
  }
  return {Level::kOk, "UCX", text, ""};
}

Finding CheckCongestionControl(const std::string& root) {
  return {Level::kOk,
          "TCP congestion control",
          FirstLine(root + "/proc/sys/net/ipv4/tcp_congestion_control") +
              "; name it with every figure that you compare",
          ""};
}

std::vector<InterfaceAddress> InterfaceAddresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return found;
  }
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* address = nullptr;
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET) {
      address = &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    } else if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET6) {
      address = &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
    }
    if (address != nullptr &&
        inet_ntop(entry->ifa_addr->sa_family, address, text.data(), text.size()) != nullptr) {
      found.push_back({entry->ifa_name, text.data()});
    }
  }
  freeifaddrs(list);
  return found;
}

bool IsPublicAddress(const std::string& address) {
  in_addr v4{};
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) {
    return IsPublicV4(ntohl(v4.s_addr));
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, address.c_str(), &v6) != 1) {
    return false;
  }
  // Global unicast is 2000::/3; unique local, link-local and loopback lie outside.
  return (v6.s6_addr[0] & 0xe0) == 0x20;
}

Finding CheckExposure(const std::string& chosen, const std::vector<InterfaceAddress>& addresses) {
  constexpr char kAspect[] = "peer port";
  constexpr char kRemedy[] =
      "give the agent --interface NAME of a network that only members reach, or close its peer "
      "port (7710) "
      "to all others with a firewall; UCX over TCP cannot tell a peer from a stranger";
  std::set<std::string> known;
  for (const InterfaceAddress& entry : addresses) {
    known.insert(entry.interface);
  }
  const std::string there_are = absl::StrCat("; there are: ", absl::StrJoin(known, " "));
  std::vector<std::string> reached;
  std::vector<std::string> exposed;
  for (const absl::string_view part : absl::StrSplit(chosen, ',', absl::SkipEmpty())) {
    const std::string interface(part);
    if (interface == "auto" || absl::StrContains(interface, ':')) {
      continue;  // found out by the agent; a device for RDMA, which has no address
    }
    if (!known.contains(interface)) {
      return {Level::kFail,
              kAspect,
              absl::StrCat("interface ", interface, " has no address here", there_are),
              kRemedy};
    }
    for (const InterfaceAddress& entry : addresses) {
      if (entry.interface == interface) {
        const std::string text = absl::StrCat(interface, " (", entry.address, ")");
        (IsPublicAddress(entry.address) ? exposed : reached).push_back(text);
      }
    }
  }
  if (!exposed.empty()) {
    return {Level::kFail,
            kAspect,
            absl::StrCat("strangers reach the public address of interface ",
                         absl::StrJoin(exposed, ", ")),
            kRemedy};
  }
  if (reached.empty()) {
    return {Level::kWarn, kAspect, absl::StrCat("no interface chosen", there_are), kRemedy};
  }
  return {Level::kOk,
          kAspect,
          absl::StrCat(
              "interface ", absl::StrJoin(reached, ", "), "; see to it that only members reach it"),
          ""};
}

Finding CheckAgentSocket(const std::string& path) {
  constexpr char kAspect[] = "agent";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return {Level::kFail,
            kAspect,
            absl::StrCat("socket path ", path, " is longer than a socket's may be (107 bytes)"),
            "choose a shorter one"};
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  const UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return {Level::kOk, kAspect, "one listens at " + path, ""};
  }
  if (errno == EPROTOTYPE) {
    return {Level::kFail,
            kAspect,
            absl::StrCat("another program than an agent has the socket ", path),
            "stop it, or give the agent another path by --socket"};
  }
  return {Level::kWarn,
          kAspect,
          absl::StrCat("none answers at ", path, ": ", strerror(errno)),
          errno == EACCES
              ? "add this user to the socket's group"
              : "start maypole-agent, or name its socket with --socket or MAYPOLE_SOCKET"};
}

}  // namespace maypole::cli
