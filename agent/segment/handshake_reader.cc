#include "agent/segment/handshake_reader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "proto/segment_layout.h"
#include "proto/text.h"

namespace maypole::agent {
namespace {

// The coordinator waits no longer; and so it can be added to any time.
constexpr Duration kTimeoutMax = std::chrono::hours(365 * 24);

Outcome Refuse(ErrorCode code, std::string text) {
  return {code, std::move(text), ""};
}

Outcome Foreign(std::size_t bytes) {
  return Refuse(ErrorCode::kInvalidArgument,
                "this is a Maypole agent's socket, and a packet of " + std::to_string(bytes) +
                    " bytes is no message of a Maypole client");
}

// Wrong magic, kind or length within one protocol. Not ok: why.
Outcome CheckHeader(const MessageHeader& header, std::size_t bytes) {
  if (header.magic != kHandshakeMagic) {
    return Foreign(bytes);
  }
  if (header.bytes != bytes) {
    return Refuse(ErrorCode::kInvalidArgument,
                  "a message says that it has " + std::to_string(header.bytes) +
                      " bytes, but has " + std::to_string(bytes));
  }
  return {};
}

Outcome CheckVersion(const Hello& hello, std::size_t bytes, std::string_view version) {
  if (hello.header.protocol == kClientProtocol) {
    return {};
  }
  const std::string_view theirs = LoadTerminated(hello.version);
  const bool is_named = bytes >= offsetof(Hello, version) + sizeof(hello.version) &&
                        !theirs.empty() && IsPrintableUtf8(theirs);
  return Refuse(ErrorCode::kFailedPrecondition,
                "the client (version " + std::string(is_named ? theirs : "unknown") +
                    ") speaks protocol " + std::to_string(hello.header.protocol) +
                    ", this agent (version " + std::string(version) + ") speaks protocol " +
                    std::to_string(kClientProtocol) + ": install the same version of both");
}

Outcome CheckHello(const Hello& hello, std::size_t bytes, std::string_view version) {
  if (Outcome header = CheckHeader(hello.header, bytes); !header.ok()) {
    return header;
  }
  if (hello.header.kind != MessageKind::kHello) {
    return Foreign(bytes);
  }
  if (Outcome same = CheckVersion(hello, bytes, version); !same.ok()) {
    return same;
  }
  if (bytes != sizeof(Hello)) {
    return Refuse(ErrorCode::kInvalidArgument,
                  "a client's first message has " + std::to_string(bytes) + " bytes instead of " +
                      std::to_string(sizeof(Hello)));
  }
  if (hello.job_bytes == 0 || hello.job_bytes > kJobNameBytesMax ||
      !IsPrintableUtf8(LoadText(hello.job, hello.job_bytes))) {
    return Refuse(ErrorCode::kInvalidArgument,
                  "the job's name must be 1 .. 127 bytes of printable UTF-8");
  }
  if (hello.rank >= hello.world_size) {
    return Refuse(ErrorCode::kInvalidArgument,
                  "rank " + std::to_string(hello.rank) + " is not below the world size " +
                      std::to_string(hello.world_size));
  }
  return {};
}

template <typename Message>
ClientRequest Take(std::span<const std::byte> packet) {
  if (packet.size() != sizeof(Message)) {
    return Refuse(ErrorCode::kInvalidArgument,
                  "a request has " + std::to_string(packet.size()) + " bytes instead of " +
                      std::to_string(sizeof(Message)));
  }
  Message message;
  std::memcpy(&message, packet.data(), sizeof(message));
  return message;
}

}  // namespace

std::variant<ClientHello, Outcome> ReadHello(std::span<const std::byte> packet,
                                             std::string_view version) {
  Hello hello;
  if (packet.size() < sizeof(MessageHeader)) {
    return Foreign(packet.size());
  }
  std::memcpy(&hello, packet.data(), std::min(packet.size(), sizeof(hello)));
  if (Outcome checked = CheckHello(hello, packet.size(), version); !checked.ok()) {
    return checked;
  }
  return ClientHello{.session = 0,
                     .job = std::string(LoadText(hello.job, hello.job_bytes)),
                     .rank = Rank(hello.rank),
                     .world_size = hello.world_size,
                     .pid = hello.pid,
                     .timeout = std::clamp(Duration(hello.timeout_ns), Duration(0), kTimeoutMax)};
}

ClientRequest ReadRequest(std::span<const std::byte> packet) {
  MessageHeader header;
  if (packet.size() < sizeof(header)) {
    return Foreign(packet.size());
  }
  std::memcpy(&header, packet.data(), sizeof(header));
  if (Outcome checked = CheckHeader(header, packet.size()); !checked.ok()) {
    return checked;
  }
  switch (header.kind) {
    case MessageKind::kAllocateRequest:
      return Take<AllocateRequest>(packet);
    case MessageKind::kFreeRequest:
      return Take<FreeRequest>(packet);
    case MessageKind::kResultRequest:
      return Take<ResultRequest>(packet);
    case MessageKind::kStatsRequest:
      return Take<StatsRequest>(packet);
    case MessageKind::kGoodbye:
      return Take<Goodbye>(packet);
    case MessageKind::kHello:
    case MessageKind::kHelloReply:
    case MessageKind::kSessionReady:
    case MessageKind::kAllocateReply:
    case MessageKind::kStatsReply:
      break;
  }
  return Refuse(ErrorCode::kInvalidArgument,
                "message " + std::to_string(static_cast<std::uint32_t>(header.kind)) +
                    " is not one that a client sends here");
}

}  // namespace maypole::agent
