// What a failed call means for its caller; docs/errors.md is the table. The numbers are part of the
// C interface (maypole_status in maypole.h) and of the segment layout.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace maypole {

enum class ErrorCode : std::uint8_t {
  kOk = 0,
  kInvalidArgument = 1,     // a value of this call is wrong; fix it
  kMismatch = 2,            // ranks disagree on one op; nothing was moved
  kPeerLost = 3,            // a rank, agent or node of the job is gone
  kTimeout = 4,             // the deadline passed; the text names whom the op waited for
  kAgentUnavailable = 5,    // no agent at the socket, or it went away
  kResourceExhausted = 6,   // slots, segments or memory are used up; back off
  kFailedPrecondition = 7,  // not possible now: forked, closed, other version, job refused
  kInternal = 8,            // a bug of ours, contained
};

constexpr std::string_view Name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk:
      return "ok";
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kMismatch:
      return "mismatch";
    case ErrorCode::kPeerLost:
      return "peer lost";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kAgentUnavailable:
      return "agent unavailable";
    case ErrorCode::kResourceExhausted:
      return "resource exhausted";
    case ErrorCode::kFailedPrecondition:
      return "failed precondition";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

// The outcome of an op or request. `text` is one sentence for a person: what failed, with which
// values, what to do. `culprits` is machine-readable: comma-separated `key=value` lists, e.g.
// "ranks=3;hosts=node-b".
struct Outcome {
  ErrorCode code = ErrorCode::kOk;
  std::string text;
  std::string culprits;

  bool ok() const { return code == ErrorCode::kOk; }

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

}  // namespace maypole
