#include "client/src/agent_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "client/src/failure.h"
#include "proto/segment_layout.h"

namespace maypole::client::internal {
namespace {

// Bounds connect() and send() to an agent that is stopped.
constexpr timeval kSendTimeout{5, 0};

int OpenSocket(int) {
  return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

Outcome ConnectFailure(const std::string& path, int error) {
  const std::string start =
      "; start one: maypole-agent --socket " + path + " --coordinator HOST:PORT";

  struct stat status {};

  const bool exists = ::stat(path.c_str(), &status) == 0;
  std::string text;
  if (exists && !S_ISSOCK(status.st_mode)) {
    text = "no agent at '" + path + "': it is not a socket; give another path, or remove it and" +
           start.substr(1);
  } else if (error == ENOENT || error == ENOTDIR) {
    text = "no agent at '" + path + "': there is no such file" + start;
  } else if (error == ECONNREFUSED) {
    text = "no agent at '" + path + "': the process that listened there has ended" + start;
  } else if (error == EPROTOTYPE) {
    text = "'" + path + "' is another program's socket, not an agent's" + start;
  } else if (error == EAGAIN || error == EINPROGRESS) {
    text = "the agent at '" + path +
           "' has not accepted the connection for 5 s: it is stopped or overloaded";
  } else {
    text = "cannot connect to the agent at '" + path + "': " + ErrnoText(error);
  }
  return Failure(ErrorCode::kAgentUnavailable, text);
}

int MillisecondsUntil(TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      deadline - std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()));
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

void TakeDescriptors(msghdr& header, Packet& packet) {
  std::size_t count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t fds = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < fds; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      UniqueFd owned(fd);
      if (count < packet.fds.size()) {
        packet.fds[count++] = std::move(owned);
      }
    }
  }
}

ssize_t ReceivePacket(int fd, Packet& packet) {
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
  iovec data{packet.bytes.data(), packet.bytes.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const ssize_t bytes = ::recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (bytes >= 0) {
    TakeDescriptors(header, packet);
  }
  return bytes;
}

}  // namespace

Outcome AgentSocket::Connect(const std::string& path) {
  name_ = "the agent at '" + path + "'";
  fd_.Open(OpenSocket, 0);
  if (fd_.get() < 0) {
    return Failure(ErrorCode::kResourceExhausted, "cannot open a socket: " + ErrnoText(errno));
  }
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof(kSendTimeout));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  int result = 0;
  do {
    result = ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? Outcome{} : ConnectFailure(path, errno);
}

Outcome AgentSocket::Send(const void* message, std::size_t bytes) {
  ssize_t sent = 0;
  do {
    sent = ::send(fd_.get(), message, bytes, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    return {};
  }
  if (errno == EAGAIN) {
    return Failure(ErrorCode::kAgentUnavailable,
                   name_ + " has not taken a message for 5 s: it is stopped or overloaded");
  }
  return Gone();
}

Outcome AgentSocket::Receive(Packet& packet, TimePoint deadline) {
  bool reset = false;
  for (;;) {
    const ssize_t bytes = ReceivePacket(fd_.get(), packet);
    if (bytes > 0) {
      packet.size = static_cast<std::size_t>(bytes);
      return {};
    }
    if (bytes < 0 && errno == ECONNRESET && !reset) {
      reset = true;  // told once, before what the agent said last
      continue;
    }
    if (bytes == 0 || (errno != EAGAIN && errno != EINTR)) {
      return Gone();
    }
    pollfd wait{fd_.get(), POLLIN, 0};
    if (const int left = MillisecondsUntil(deadline);
        left == 0 || (::poll(&wait, 1, left) == 0 && MillisecondsUntil(deadline) == 0)) {
      return Failure(ErrorCode::kTimeout, name_ + " has not answered in time");
    }
  }
}

Outcome AgentSocket::ReceiveInto(MessageKind kind,
                                 TimePoint deadline,
                                 std::span<std::byte> message,
                                 Packet& packet) {
  if (Outcome received = Receive(packet, deadline); !received.ok()) {
    return received;
  }
  MessageHeader header;
  std::memcpy(&header, packet.bytes.data(), std::min(sizeof(header), packet.size));
  if (packet.size != message.size() || header.magic != kHandshakeMagic || header.kind != kind ||
      header.bytes != packet.size) {
    return Failure(ErrorCode::kInternal,
                   name_ + " sent " + std::to_string(packet.size) + " bytes that are not message " +
                       std::to_string(static_cast<std::uint32_t>(kind)) + " of " +
                       std::to_string(message.size()));
  }
  std::memcpy(message.data(), packet.bytes.data(), message.size());
  return {};
}

bool AgentSocket::AgentIsGone() const {
  pollfd look{fd_.get(), POLLRDHUP, 0};
  return ::poll(&look, 1, 0) == 1 && (look.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
}

void AgentSocket::StopReceiving() {
  ::shutdown(fd_.get(), SHUT_RD);
}

void AgentSocket::Shutdown() {
  ::shutdown(fd_.get(), SHUT_RDWR);
}

Outcome AgentSocket::Gone() const {
  return Failure(
      ErrorCode::kAgentUnavailable,
      name_ + " is gone: it ended or closed the connection; start it again and connect anew");
}

}  // namespace maypole::client::internal
