// The client-facing edge: the Unix socket, the shared segments and their slots. Turns what clients
// write into validated events, and writes outcomes back. Formats: proto/handshake.h,
// proto/segment_layout.h.
//
// Threads: confined to the loop's thread. Never blocks: a client that does not read is closed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/engine/events.h"
#include "proto/handshake.h"

namespace maypole::agent {

struct SegmentServerOptions {
  std::string socket_path = "/run/maypole/agent.sock";
  std::uint32_t sessions_max = 1024;
  std::uint32_t segments_per_session_max = 1024;
  // Of all sessions: each is a mapping, and the kernel gives a process 65,530 by default.
  std::uint32_t segments_max = 32768;
  std::uint64_t segment_bytes_per_session_max = std::uint64_t{64} << 30;
  std::string version;
};

class SegmentServer {
 public:
  // Listens. Errors: kAlreadyExists if a living agent answers at the path; kUnavailable with
  // errno's text otherwise. A socket file that nobody answers at is replaced.
  static absl::StatusOr<std::unique_ptr<SegmentServer>> Create(SegmentServerOptions options);
  virtual ~SegmentServer() = default;

  // Takes what clients did since the last call, and tells them that the loop runs; never blocks.
  // True if there was anything.
  virtual bool Poll(std::vector<ClientEvent>& events) = 0;
  // Tells all clients to ring from now on. False if something is pending already (then nothing is
  // armed).
  virtual bool Arm() = 0;
  // Tells all clients that the loop is awake: no doorbell needed.
  virtual void Disarm() = 0;
  // One descriptor (an epoll) that is readable when a socket or a doorbell is.
  virtual int EventFd() const = 0;

  // What the core decided. Actions for a session that is gone, or an op that has ended, are
  // ignored. After a refusal by Answer the session does not exist any more, and no ClientGone
  // follows. Every other session that said hello ends with exactly one ClientGone (or by Release).
  // One that was Ready then keeps its memory until Release.
  virtual void Answer(const AnswerHello& answer) = 0;
  virtual void Ready(const SessionReady& ready) = 0;
  virtual void Complete(const CompleteOp& done) = 0;
  virtual void Fail(const FailSession& failure) = 0;
  virtual void Release(SessionId session) = 0;

  // Called for a StatsRequest; fills everything but the header.
  virtual void OnStats(std::function<void(StatsReply&)> fill) = 0;
  // Called for a ResultRequest: a read-only descriptor (the server closes it) and the size of a
  // result segment of a job, or -1.
  virtual void OnResultSegment(
      std::function<int(JobToken job, std::uint32_t segment, std::uint64_t& bytes)> open) = 0;

  // Bytes of data segments now held by all sessions.
  virtual std::uint64_t SegmentBytes() const = 0;
  virtual std::size_t Sessions() const = 0;
};

}  // namespace maypole::agent
