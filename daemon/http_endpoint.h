// The daemon's HTTP port: /metrics for Prometheus, /healthz (is the process well), /readyz (may it
// be given work).
//
// Threads: eight of its own serve requests and call the callbacks and collectables; both must be
// thread-safe and outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace prometheus {
class Collectable;
}

namespace maypole::daemon {

struct HttpAnswer {
  bool ok = false;   // false: 503
  std::string text;  // one line for a person
};

struct HttpEndpointOptions {
  std::string listen = "0.0.0.0";          // an address of this machine
  std::uint16_t port = 0;                  // 0: the operating system chooses
  std::string listen_option = "--listen";  // that gave the address, for errors
  std::vector<std::shared_ptr<prometheus::Collectable>> metrics;
  std::function<HttpAnswer()> health;
  std::function<HttpAnswer()> readiness;
};

class HttpEndpoint {
 public:
  // Errors: kUnavailable if the port cannot be had, with address, option and reason.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Create(HttpEndpointOptions options);
  ~HttpEndpoint();

  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  std::uint16_t port() const;

 private:
  struct Server;
  explicit HttpEndpoint(std::unique_ptr<Server> server);

  std::unique_ptr<Server> server_;
};

}  // namespace maypole::daemon
