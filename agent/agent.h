// The agent as a process: builds the parts, and runs the one loop that feeds events to the core and
// carries its actions out.
//
// Loop body, each part bounded: take what clients wrote -> poll the transport -> take what the
// coordinator said -> sum one piece -> carry out actions -> idle. Idle: spin for a moment if an op
// is in flight and a core is free, then arm every source and sleep in one epoll.
//
// Threads: Run's thread owns everything here but the reduce pool's helpers, gRPC's and the HTTP
// port's threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/agent_options.h"
#include "agent/control/coordinator_client.h"
#include "agent/engine/agent_core.h"
#include "agent/idle.h"
#include "agent/memory/host_memory.h"
#include "agent/reduce/reduce_pool.h"
#include "agent/segment/segment_server.h"
#include "agent/telemetry/agent_stats.h"
#include "agent/transport/transport.h"
#include "common/unique_fd.h"
#include "daemon/http_endpoint.h"
#include "daemon/loop_watch.h"
#include "daemon/signals.h"

namespace maypole::agent {

class Agent {
 public:
  // Listens on socket, data port and HTTP port, and begins to attach. Errors name the option and
  // the value.
  static absl::StatusOr<std::unique_ptr<Agent>> Create(AgentOptions options);
  ~Agent();

  // Until a stop signal, or until the coordinator refuses this agent (then an error).
  absl::Status Run(daemon::StopSignals& stop);

 private:
  explicit Agent(AgentOptions options);

  absl::Status Open();
  absl::Status OpenHttp();
  absl::Status WritePorts() const;
  bool TakeEvents();
  void CarryOut();
  void Do(Action action);
  void Send(SendFrame frame);
  void OnTransport(const TransportEvent& event);
  void OnControl(ControlEvent event);
  void OnFinished(const OpFinished& finished);
  void Report(TimePoint now);
  void UpdateGauges();
  void UpdateEpochs();
  void FillStats(StatsReply& stats);
  // Sleeps until something happens; false if `stop` asked to end.
  bool Sleep(daemon::StopSignals& stop);

  static TimePoint Now() {
    return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
  }

  // Destroyed in reverse: first what has threads of its own, then the transport, then what pool and
  // transport read and write (bodies of frames, the clients' segments, memory).
  AgentOptions options_;
  std::uint64_t incarnation_ = 0;
  std::shared_ptr<AgentStats> stats_ = std::make_shared<AgentStats>();
  std::atomic<bool> attached_ = false;
  daemon::LoopWatch watch_{"the agent's loop"};
  HostMemory memory_;
  std::unique_ptr<AgentCore> core_;
  std::unique_ptr<SegmentServer> segments_;
  std::unordered_map<TransferToken, std::vector<std::byte>>
      bodies_;  // of control frames on their way
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<ReducePool> pool_;
  std::unique_ptr<CoordinatorClient> coordinator_;
  std::unique_ptr<daemon::HttpEndpoint> http_;
  UniqueFd epoll_;
  IdlePolicy idle_;

  TransferToken next_body_ = kShellTokens;
  std::vector<ClientEvent> client_events_;
  std::vector<TransportEvent> transport_events_;
  std::vector<ControlEvent> control_events_;
  std::vector<WorkToken> done_work_;
  absl::Status refused_;
  std::uint64_t told_epochs_ = 0;
  TimePoint next_report_{};
  bool has_news_ = true;  // since the last report

  std::uint64_t ops_ = 0;
  std::uint64_t wait_ns_ = 0;
  std::uint64_t transfer_ns_ = 0;
  collective::Algorithm last_algorithm_ = collective::Algorithm::kAuto;
};

}  // namespace maypole::agent
