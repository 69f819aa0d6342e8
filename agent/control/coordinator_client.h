// The agent's stream to the coordinator: attaches, and attaches again with backoff whenever it is
// lost. Speaks the plain structs of engine/events.h; only coordinator_client.cc knows gRPC.
//
// Threads: the public functions on the loop's thread; gRPC's threads put events into a queue. Never
// blocks.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/engine/events.h"

namespace maypole::agent {

struct CoordinatorClientOptions {
  std::string coordinator = "127.0.0.1:7700";
  std::string node;
  std::uint64_t incarnation = 0;
  std::string host;
  std::string data_address;   // transport address, opaque
  std::string data_endpoint;  // for people
  std::string version;
  std::vector<std::pair<std::string, std::string>> labels;  // zone=a,rack=b: outermost first
};

// What the agent has to tell about itself, once a second.
struct WaitingOp {
  std::string job;
  std::string op;
  std::uint64_t occurrence = 0;
  Duration waited{0};
  std::vector<Rank> missing_ranks;
  std::string reason;
};

struct AgentReport {
  std::vector<WaitingOp> waiting;
  std::uint64_t ops = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
};

class CoordinatorClient {
 public:
  static std::unique_ptr<CoordinatorClient> Create(CoordinatorClientOptions options);
  virtual ~CoordinatorClient() = default;

  // Queued; dropped if the link is down (the core says it again when it comes up).
  virtual void Tell(const ControlMessage& message) = 0;
  // Sent if it differs from the last report and the link is up.
  virtual void Report(const AgentReport& report) = 0;
  // The epochs that run here, told with every new attachment. The owner calls this whenever they
  // change, and before it polls again; until then there is no new attachment.
  virtual void SetEpochs(std::vector<EpochInfo> epochs) = 0;

  virtual bool Poll(std::vector<ControlEvent>& events) = 0;
  // Readable when Poll has something; an eventfd that Poll resets.
  virtual int EventFd() const = 0;
};

}  // namespace maypole::agent
