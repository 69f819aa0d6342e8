// The coordinator's gRPC port: Attach streams and GetStatus around one Membership, with the
// standard health service and reflection. The .cc is the only file of the coordinator that knows
// gRPC.
//
// Threads: gRPC's threads turn messages into events; one mutex guards the core, so events are
// handled one at a time, and a thread ticks it. The public functions may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/http_endpoint.h"
#include "server/membership.h"

namespace maypole::server {

struct CoordinatorOptions {
  std::string listen = "0.0.0.0";
  std::uint16_t port = 7700;  // 0: the operating system chooses
  MembershipOptions membership;
  std::function<void(const LogLine&)> log;  // thread-safe
};

class CoordinatorServer {
 public:
  // Errors: kUnavailable if the port cannot be had, naming --port and --listen with their values.
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Create(CoordinatorOptions options);
  virtual ~CoordinatorServer() = default;

  virtual std::uint16_t port() const = 0;
  virtual Snapshot TakeSnapshot() const = 0;
  // Not ok if membership has seen no time pass for long. Never waits.
  virtual daemon::HttpAnswer Health(TimePoint now) const = 0;

  // Health says NOT_SERVING, all streams end, the port is closed. The agents go on and attach to
  // whoever comes next. The destructor does the same.
  virtual void Shutdown() = 0;
};

}  // namespace maypole::server
