#include "agent/transport/ucx/listener.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

namespace maypole::agent {
namespace {

enum class Kind { kListener, kConnection };

bool IsBoundTo(int fd, std::uint16_t port) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    return false;
  }
  // sin_port and sin6_port lie at the same place.
  return (address.ss_family == AF_INET || address.ss_family == AF_INET6) &&
         ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port) == port;
}

std::vector<int> SocketsOf(std::uint16_t port, Kind kind) {
  std::vector<int> sockets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    int is_listening = 0;
    socklen_t bytes = sizeof(is_listening);
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &bytes) == 0 &&
        (is_listening != 0) == (kind == Kind::kListener) && IsBoundTo(fd, port)) {
      sockets.push_back(fd);
    }
  }
  return sockets;
}

}  // namespace

void ResetConnectionsOnClose(std::uint16_t port) {
  const linger reset = {1, 0};
  for (const int fd : SocketsOf(port, Kind::kListener)) {
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
}

void AwaitSentBytes(std::uint16_t port) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  const auto has_unsent = [](int fd) {
    int unacknowledged = 0;
    return ::ioctl(fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged > 0;
  };
  const std::vector<int> sockets = SocketsOf(port, Kind::kConnection);
  while (std::ranges::any_of(sockets, has_unsent) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace maypole::agent
