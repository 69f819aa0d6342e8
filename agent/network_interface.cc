#include "agent/network_interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_split.h"
#include "common/unique_fd.h"

namespace maypole::agent {
namespace {

bool SameAddress(const sockaddr* a, const sockaddr_storage& b) {
  if (a == nullptr || a->sa_family != b.ss_family) {
    return false;
  }
  if (a->sa_family == AF_INET) {
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(a)->sin_addr,
                       &reinterpret_cast<const sockaddr_in*>(&b)->sin_addr,
                       sizeof(in_addr)) == 0;
  }
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(&b)->sin6_addr,
                     sizeof(in6_addr)) == 0;
}

absl::Status CannotTell(const std::string& host_port, const std::string& why) {
  return absl::InvalidArgumentError("cannot tell which interface leads to the coordinator " +
                                    host_port + " (" + why +
                                    "); name it with --interface, e.g. --interface eth0");
}

}  // namespace

// Connecting a datagram socket makes the kernel choose a route and a source address without sending
// anything.
absl::StatusOr<std::string> InterfaceTowards(const std::string& host_port) {
  const auto colon = host_port.rfind(':');
  std::string host = host_port.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), "7700", &hints, &found); error != 0) {
    return CannotTell(host_port, ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  const UniqueFd socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage local{};
  socklen_t bytes = sizeof(local);
  if (!socket.valid() || ::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local), &bytes) != 0) {
    return CannotTell(host_port, std::strerror(errno));
  }
  ifaddrs* interfaces = nullptr;
  if (::getifaddrs(&interfaces) != 0) {
    return CannotTell(host_port, std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(interfaces, &::freeifaddrs);
  for (const ifaddrs* entry = interfaces; entry != nullptr; entry = entry->ifa_next) {
    if (SameAddress(entry->ifa_addr, local)) {
      return std::string(entry->ifa_name);
    }
  }
  return CannotTell(host_port, "no interface has the source address");
}

std::string DescribeEndpoint(const std::string& interfaces, std::uint16_t port) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return interfaces;
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(all, &::freeifaddrs);
  for (const absl::string_view name : absl::StrSplit(interfaces, ',')) {
    for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
      char host[NI_MAXHOST] = {};
      if (entry->ifa_addr == nullptr || name != entry->ifa_name) {
        continue;
      }
      const socklen_t bytes =
          entry->ifa_addr->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
      if (entry->ifa_addr->sa_family != AF_PACKET &&
          ::getnameinfo(entry->ifa_addr, bytes, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) ==
              0) {
        return host + (port == 0 ? std::string() : ":" + std::to_string(port));
      }
    }
  }
  return interfaces;
}

}  // namespace maypole::agent
