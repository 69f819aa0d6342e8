// The Unix socket between a client and its agent (SOCK_SEQPACKET): fixed-size messages, one per
// packet, descriptors by SCM_RIGHTS. The socket's end-of-file is how either side learns that the
// other is gone.
//
//   client               agent
//   Hello            ->                 who I am: protocol, job, rank, world size
//                    <-  HelloReply     refused with a sentence,
//                                       or: control segment + doorbell (2 descriptors)
//                    <-  SessionReady   when all ranks of the job have joined
//                                       (or why they never will)
//   AllocateRequest  ->
//                    <-  AllocateReply  a data segment (1 descriptor)
//   FreeRequest      ->                 no reply
//   ResultRequest    ->
//                    <-  AllocateReply  the result segment of that number, read-only (1 descriptor)
//   StatsRequest     ->
//                    <-  StatsReply     counters of the agent
//   Goodbye          ->                 closing in peace (else: the rank died)
//
// Every packet begins with MessageHeader. The agent refuses, with a sentence and a close, what is
// not exactly this; a stranger can cost it a bounded time and no memory. MessageHeader, the first
// 48 bytes of Hello (up to `version`) and the whole of HelloReply keep their places for ever, so
// that any two versions can refuse each other by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace maypole {

inline constexpr std::uint32_t kHandshakeMagic = 0x4859414d;  // "MAYH"
inline constexpr std::size_t kJobNameBytesMax = 127;

enum class MessageKind : std::uint32_t {
  kHello = 1,
  kHelloReply = 2,
  kSessionReady = 3,
  kAllocateRequest = 4,
  kAllocateReply = 5,
  kFreeRequest = 6,
  kResultRequest = 7,
  kStatsRequest = 8,
  kStatsReply = 9,
  kGoodbye = 10,
};

struct MessageHeader {
  std::uint32_t magic = kHandshakeMagic;
  MessageKind kind = MessageKind::kHello;
  std::uint32_t protocol = 0;  // kClientProtocol of the sender
  std::uint32_t bytes = 0;     // of the whole packet
};

struct Hello {
  MessageHeader header;
  char version[32] = {};  // of the client, terminated
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::int64_t pid = 0;         // for messages to people only
  std::int64_t timeout_ns = 0;  // for the job to form; <= 0: none
  std::uint64_t job_bytes = 0;
  char job[kJobNameBytesMax + 1] = {};  // printable UTF-8
};

struct HelloReply {
  MessageHeader header;
  char version[32] = {};   // of the agent, terminated
  std::uint32_t code = 0;  // ErrorCode
  std::uint32_t text_bytes = 0;
  char text[512] = {};
};

struct SessionReady {
  MessageHeader header;
  std::uint32_t code = 0;  // ErrorCode
  std::uint32_t text_bytes = 0;
  std::uint32_t epoch = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t local_world_size = 0;
  std::uint32_t nodes = 0;
  std::int64_t default_timeout_ns = 0;  // of ops that name none; 0: unknown
  // An agent that did not beat for so long while ops were in flight is stopped; 0: unknown.
  std::int64_t lease_ns = 0;
  std::uint32_t culprit_bytes = 0;
  std::uint32_t reserved = 0;
  char text[512] = {};
  char culprits[128] = {};
};

struct AllocateRequest {
  MessageHeader header;
  std::uint64_t bytes = 0;
};

struct AllocateReply {
  MessageHeader header;
  std::uint32_t code = 0;
  std::uint32_t text_bytes = 0;
  std::uint32_t segment = 0;
  std::uint32_t reserved = 0;
  std::uint64_t bytes = 0;
  char text[512] = {};
};

struct FreeRequest {
  MessageHeader header;
  std::uint32_t segment = 0;
  std::uint32_t reserved = 0;
};

struct ResultRequest {
  MessageHeader header;
  std::uint32_t segment = 0;
  std::uint32_t reserved = 0;
};

struct StatsRequest {
  MessageHeader header;
};

struct StatsReply {
  MessageHeader header;
  std::uint64_t ops = 0;              // completed on this agent, all jobs
  std::uint64_t wire_sent_bytes = 0;  // counted by the transport
  std::uint64_t wire_received_bytes = 0;
  std::uint64_t cpu_ns = 0;          // user + system time of the agent process
  std::uint64_t resident_bytes = 0;  // of the agent process
  std::uint64_t local_sum_ns = 0;    // time in Reduce on any thread
  std::uint64_t wait_ns = 0;         // ops waiting for ranks or agents that had not submitted yet
  std::uint64_t transfer_ns = 0;     // ops from start to completion
  char algorithm[16] = {};           // of the last op, terminated
};

struct Goodbye {
  MessageHeader header;
};

inline constexpr std::size_t kMessageBytesMax = 1024;

// A message with its header filled in.
template <typename Message>
Message MakeMessage(MessageKind kind, std::uint32_t protocol) {
  Message message;
  message.header = {kHandshakeMagic, kind, protocol, sizeof(Message)};
  return message;
}

static_assert(sizeof(MessageHeader) == 16);
static_assert(sizeof(Hello) <= kMessageBytesMax && sizeof(SessionReady) <= kMessageBytesMax);
static_assert(offsetof(Hello, version) == 16 && offsetof(HelloReply, version) == 16 &&
              offsetof(HelloReply, code) == 48 && offsetof(HelloReply, text) == 56 &&
              sizeof(HelloReply) == 568);
static_assert(std::is_trivially_copyable_v<Hello> && std::is_trivially_copyable_v<SessionReady> &&
              std::is_trivially_copyable_v<AllocateReply>);

}  // namespace maypole
