// The client's end of the socket to the agent: one packet out, one packet in, descriptors with it.
// Format: proto/handshake.h.
//
// Threads: Send, Receive and Exchange on one thread at a time (the session's socket mutex);
// AgentIsGone on any.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>

#include "client/src/fork_guard.h"
#include "common/error_code.h"
#include "common/time.h"
#include "common/unique_fd.h"
#include "proto/handshake.h"

namespace maypole::client::internal {

struct Packet {
  alignas(8) std::array<std::byte, kMessageBytesMax> bytes;
  std::size_t size = 0;
  std::array<UniqueFd, 2> fds;
};

class AgentSocket {
 public:
  // Errors: kAgentUnavailable, saying what is at the path and how to start an agent.
  Outcome Connect(const std::string& path);

  Outcome Send(const void* message, std::size_t bytes);
  // The next packet. Errors: kTimeout; kAgentUnavailable at the end of the stream; kInternal for
  // what is no message.
  Outcome Receive(Packet& packet, TimePoint deadline);

  // Receive of one message of this protocol; whatever else comes is an error.
  template <typename Message>
  Outcome ReceiveMessage(MessageKind kind, TimePoint deadline, Message& message, Packet& packet) {
    return ReceiveInto(kind, deadline, std::as_writable_bytes(std::span(&message, 1)), packet);
  }

  // The agent closed its end, or died.
  bool AgentIsGone() const;
  // Whoever waits in Receive returns; nothing is received any more.
  void StopReceiving();
  // Ends the conversation. The descriptor stays.
  void Shutdown();

  void Close() { fd_.Close(); }

  // "the agent at /run/maypole/agent.sock"
  const std::string& name() const { return name_; }

 private:
  Outcome ReceiveInto(MessageKind kind,
                      TimePoint deadline,
                      std::span<std::byte> message,
                      Packet& packet);
  Outcome Gone() const;

  std::string name_;
  GuardedFd fd_;
};

}  // namespace maypole::client::internal
