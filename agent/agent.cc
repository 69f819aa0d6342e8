#include "agent/agent.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "agent/network_interface.h"
#include "agent/telemetry/agent_collector.h"
#include "agent/transport/ucx/ucx_transport.h"
#include "common/overloaded.h"
#include "daemon/log.h"
#include "daemon/ports_file.h"
#include "daemon/version.h"

namespace maypole::agent {
namespace {

constexpr Duration kReportEvery = std::chrono::seconds(1);

std::uint64_t ResidentBytes() {
  long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re"); file != nullptr) {
    long total = 0;
    if (std::fscanf(file, "%ld %ld", &total, &pages) != 2) {
      pages = 0;
    }
    std::fclose(file);
  }
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t CpuNanoseconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = static_cast<std::uint64_t>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
  const auto micros = static_cast<std::uint64_t>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  return seconds * 1'000'000'000 + micros * 1'000;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Create(AgentOptions options) {
  std::unique_ptr<Agent> agent(new Agent(std::move(options)));
  if (absl::Status status = agent->Open(); !status.ok()) {
    return status;
  }
  return agent;
}

Agent::Agent(AgentOptions options)
    : options_(std::move(options)), memory_(options_.memory), idle_(options_.spin) {}

Agent::~Agent() = default;

absl::Status Agent::Open() {
  incarnation_ = (std::uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  options_.core.incarnation = incarnation_;
  core_ = std::make_unique<AgentCore>(options_.core, memory_);
  pool_ = std::make_unique<ReducePool>(options_.reduce_threads);

  if (options_.interface == "auto") {
    auto found = InterfaceTowards(options_.coordinator);
    if (!found.ok()) {
      return found.status();
    }
    options_.interface = *found;
  }
  auto transport = UcxTransport::Create({.transports = options_.ucx_tls,
                                         .devices = options_.interface,
                                         .port = options_.peer_port,
                                         .lasts_as_long_as_process = true});
  if (!transport.ok()) {
    return transport.status();
  }
  const std::string endpoint = DescribeEndpoint(options_.interface, options_.peer_port);
  transport_ = *std::move(transport);

  auto segments =
      SegmentServer::Create({.socket_path = options_.socket,
                             .segment_bytes_per_session_max = options_.segment_bytes_max,
                             .version = daemon::Version()});
  if (!segments.ok()) {
    return segments.status();
  }
  segments_ = *std::move(segments);
  segments_->OnStats([this](StatsReply& stats) { FillStats(stats); });
  segments_->OnResultSegment([this](JobToken job, std::uint32_t segment, std::uint64_t& bytes) {
    return memory_.OpenResultSegment(job, segment, bytes);
  });
  if (absl::Status status = OpenHttp(); !status.ok()) {
    return status;
  }
  coordinator_ = CoordinatorClient::Create({.coordinator = options_.coordinator,
                                            .node = options_.core.node,
                                            .incarnation = incarnation_,
                                            .host = options_.core.host,
                                            .data_address = transport_->Address(),
                                            .data_endpoint = endpoint,
                                            .version = daemon::Version(),
                                            .labels = options_.labels});
  epoll_.Reset(::epoll_create1(EPOLL_CLOEXEC));
  for (const int fd :
       {segments_->EventFd(), transport_->EventFd(), pool_->EventFd(), coordinator_->EventFd()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return absl::InternalError(std::string("epoll_ctl: ") + std::strerror(errno));
    }
  }
  daemon::LogInfo("node " + options_.core.node + ": clients at " + options_.socket + ", peers at " +
                  endpoint + " (" + options_.interface + "), HTTP on port " +
                  std::to_string(http_->port()) + ", coordinator " + options_.coordinator +
                  ", sums with " + ReduceTarget() + " on " +
                  std::to_string(options_.reduce_threads) + " threads");
  return WritePorts();
}

absl::Status Agent::OpenHttp() {
  auto http = daemon::HttpEndpoint::Create(
      {.listen = options_.http_listen,
       .port = options_.http_port,
       .listen_option = "--http-listen",
       .metrics = {MakeAgentCollector(stats_, daemon::Version())},
       .health = [this] { return watch_.Health(Now()); },
       .readiness =
           [this] {
             return attached_
                        ? daemon::HttpAnswer{true, "attached to the coordinator"}
                        : daemon::HttpAnswer{
                              false, "not attached to the coordinator at " + options_.coordinator};
           }});
  if (!http.ok()) {
    return http.status();
  }
  http_ = *std::move(http);
  return absl::OkStatus();
}

absl::Status Agent::WritePorts() const {
  return daemon::WritePortsFile(options_.ports_file, {{"http", http_->port()}});
}

absl::Status Agent::Run(daemon::StopSignals& stop) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = stop.fd()}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop.fd(), &event);
  while (refused_.ok()) {
    const bool progressed = TakeEvents();
    CarryOut();
    if (progressed) {
      has_news_ = true;
      idle_.Reset();
    } else if (!idle_.KeepSpinning(core_->Busy(), Now()) && !Sleep(stop)) {
      break;
    }
  }
  return refused_;
}

bool Agent::TakeEvents() {
  const TimePoint now = Now();
  watch_.BeginRound(now);
  bool progressed = segments_->Poll(client_events_);
  for (ClientEvent& event : client_events_) {
    core_->OnClient(std::move(event), now);
  }
  client_events_.clear();
  // Before the coordinator is looked at: a join that is carried out only when a new stream has come
  // up would be told there twice.
  CarryOut();
  progressed |= transport_->Poll(transport_events_);
  for (const TransportEvent& event : transport_events_) {
    OnTransport(event);
  }
  transport_events_.clear();
  progressed |= coordinator_->Poll(control_events_);
  for (ControlEvent& event : control_events_) {
    OnControl(std::move(event));
  }
  control_events_.clear();
  CarryOut();
  progressed |= pool_->RunOne();
  pool_->TakeDone(done_work_);
  progressed |= !done_work_.empty();
  for (const WorkToken token : done_work_) {
    core_->OnWorkDone(token, Now());  // `now` was before the work
  }
  done_work_.clear();
  if (now >= core_->NextTick()) {
    core_->OnTick(now);
    progressed = true;
  }
  Report(now);
  return progressed;
}

void Agent::OnTransport(const TransportEvent& event) {
  if (event.kind == TransportEvent::Kind::kSendDone && bodies_.erase(event.token) > 0) {
    return;
  }
  core_->OnTransport(event, Now());
  // The bytes of an inline payload belong to the transport until the core's Receive or Drop is
  // carried out.
  CarryOut();
}

void Agent::OnControl(ControlEvent event) {
  if (const auto* link = std::get_if<CoordinatorLink>(&event)) {
    attached_ = link->up;
    (link->up ? daemon::LogInfo : daemon::LogWarning)("coordinator: " + link->text);
  }
  if (const auto* refusal = std::get_if<AgentRefused>(&event)) {
    // Jobs that run need no coordinator; a later refusal, when they have ended, ends the agent.
    if (!core_->Epochs().empty()) {
      daemon::LogWarning("the coordinator refuses this agent, whose jobs go on: " + refusal->text);
      return;
    }
    refused_ =
        absl::FailedPreconditionError("the coordinator refused this agent: " + refusal->text);
  }
  core_->OnControl(std::move(event), Now());
}

void Agent::CarryOut() {
  for (auto actions = core_->TakeActions(); !actions.empty(); actions = core_->TakeActions()) {
    for (Action& action : actions) {
      Do(std::move(action));
    }
  }
  if (core_->epochs_version() != told_epochs_) {
    UpdateEpochs();
  }
}

void Agent::UpdateEpochs() {
  told_epochs_ = core_->epochs_version();
  std::vector<EpochInfo> epochs = core_->Epochs();
  std::vector<JobGauge> jobs;
  for (const EpochInfo& epoch : epochs) {
    jobs.push_back(
        {epoch.job, static_cast<std::uint32_t>(epoch.members.size()), epoch.epoch.value()});
  }
  stats_->SetJobs(std::move(jobs));
  coordinator_->SetEpochs(std::move(epochs));
}

void Agent::Do(Action action) {
  std::visit(
      Overloaded{
          [&](AnswerHello& answer) { segments_->Answer(answer); },
          [&](SessionReady& ready) { segments_->Ready(ready); },
          [&](CompleteOp& done) { segments_->Complete(done); },
          [&](FailSession& failure) { segments_->Fail(failure); },
          [&](ReleaseSession& release) { segments_->Release(release.session); },
          [&](ConnectPeer& connect) {
            if (const absl::Status status = transport_->Connect(connect.peer, connect.address);
                !status.ok()) {
              TransportEvent lost;
              lost.kind = TransportEvent::Kind::kPeerLost;
              lost.peer = connect.peer;
              lost.text = "cannot connect: " + std::string(status.message());
              core_->OnTransport(lost, Now());
            }
          },
          [&](DisconnectPeer& disconnect) { transport_->Disconnect(disconnect.peer); },
          [&](SendFrame& frame) { Send(std::move(frame)); },
          [&](ReceivePayload& receive) {
            transport_->Receive(receive.arrival, receive.target, receive.token);
          },
          [&](DropPayload& drop) { transport_->Drop(drop.arrival); },
          [&](RunWork& run) { pool_->Submit(run.token, std::move(run.work)); },
          [&](TellCoordinator& tell) { coordinator_->Tell(tell.message); },
          [&](OpFinished& finished) { OnFinished(finished); },
          [&](LogLine& line) {
            (line.level == LogLine::Level::kInfo ? daemon::LogInfo : daemon::LogWarning)(line.text);
          },
      },
      action);
}

void Agent::OnFinished(const OpFinished& finished) {
  ++ops_;
  wait_ns_ += static_cast<std::uint64_t>(finished.waited.count());
  transfer_ns_ += static_cast<std::uint64_t>(finished.ran.count());
  last_algorithm_ = finished.algorithm;
  stats_->OnOpDone({.collective = finished.collective,
                    .algorithm = finished.algorithm,
                    .code = finished.code,
                    .bytes = finished.bytes,
                    .members = finished.members,
                    .duration = finished.ran});
  AgentStats::Add(stats_->rank_wait_ns, static_cast<std::uint64_t>(finished.waited.count()));
}

void Agent::Send(SendFrame frame) {
  if (frame.body.empty()) {
    if (frame.token == 0) {
      frame.token = next_body_++;
    }
    transport_->Send(frame.peer, frame.header, frame.payload, frame.token);
    return;
  }
  const TransferToken token = next_body_++;
  std::vector<std::byte>& body = bodies_[token] = std::move(frame.body);
  transport_->Send(frame.peer, frame.header, {.address = body.data(), .bytes = body.size()}, token);
}

void Agent::Report(TimePoint now) {
  if (now < next_report_) {
    return;
  }
  next_report_ = now + kReportEvery;
  has_news_ = false;
  UpdateGauges();
  const TransportCounters counters = transport_->Counters();
  AgentReport report{.waiting = {},
                     .ops = ops_,
                     .sent_bytes = counters.sent_bytes,
                     .received_bytes = counters.received_bytes};
  for (WaitingReport& waiting : core_->Waiting(now)) {
    if (waiting.op.waited >= kReportEvery) {
      report.waiting.push_back({.job = std::move(waiting.job),
                                .op = std::move(waiting.op.name),
                                .occurrence = waiting.op.occurrence,
                                .waited = waiting.op.waited,
                                .missing_ranks = std::move(waiting.op.missing),
                                .reason = std::move(waiting.op.reason)});
    }
  }
  coordinator_->Report(report);
}

// Before every sleep and with every report, so that what Prometheus reads is not older than the
// agent's last move, or than a report where a busy agent never sleeps.
void Agent::UpdateGauges() {
  const TransportCounters counters = transport_->Counters();
  AgentStats::Set(stats_->sent_bytes, counters.sent_bytes);
  AgentStats::Set(stats_->received_bytes, counters.received_bytes);
  AgentStats::Set(stats_->sent_frames, counters.sent_frames);
  AgentStats::Set(stats_->received_frames, counters.received_frames);
  AgentStats::Set(stats_->probe_bytes, counters.probe_bytes);
  AgentStats::Set(stats_->refused_frames, counters.refused_frames);
  AgentStats::Set(stats_->ops_in_flight, core_->OpsInFlight());
  AgentStats::Set(stats_->sessions, segments_->Sessions());
  AgentStats::Set(stats_->segment_bytes, segments_->SegmentBytes());
  AgentStats::Set(stats_->scratch_bytes, memory_.stats().scratch_in_use_bytes);
  AgentStats::Set(stats_->coordinator_attached, attached_ ? 1 : 0);
  AgentStats::Set(stats_->reduce_ns, pool_->BusyNanoseconds());
}

void Agent::FillStats(StatsReply& stats) {
  const TransportCounters counters = transport_->Counters();
  stats.ops = ops_;
  stats.wire_sent_bytes = counters.sent_bytes;
  stats.wire_received_bytes = counters.received_bytes;
  stats.cpu_ns = CpuNanoseconds();
  stats.resident_bytes = ResidentBytes();
  stats.local_sum_ns = pool_->BusyNanoseconds();
  stats.wait_ns = wait_ns_;
  stats.transfer_ns = transfer_ns_;
  const std::string_view name = collective::Name(last_algorithm_);
  std::memcpy(stats.algorithm, name.data(), std::min(name.size(), sizeof(stats.algorithm) - 1));
}

bool Agent::Sleep(daemon::StopSignals& stop) {
  UpdateGauges();
  if (segments_->Arm() && transport_->Arm() && pool_->Arm()) {
    const TimePoint wake =
        core_->Busy() || has_news_ ? std::min(core_->NextTick(), next_report_) : core_->NextTick();
    int timeout_ms = -1;
    if (wake != kNever) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(wake - Now()).count();
      timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 60'000));
    }
    watch_.Rest();
    epoll_event events[8];
    const int ready = ::epoll_wait(epoll_.get(), events, 8, timeout_ms);
    for (int i = 0; i < ready; ++i) {
      if (events[i].data.fd == stop.fd() && stop.Take()) {
        segments_->Disarm();
        return false;
      }
    }
  }
  segments_->Disarm();
  return true;
}

}  // namespace maypole::agent
