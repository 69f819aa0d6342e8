#include "server/coordinator_service.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "absl/status/status.h"
#include "daemon/loop_watch.h"
#include "proto/control.h"
#include "proto/coordinator.grpc.pb.h"
#include "server/messages.h"

namespace maypole::server {
namespace {

constexpr std::size_t kQueuedMessagesMax = 65536;
constexpr int kMessageBytesMax = 64 << 20;
constexpr std::chrono::milliseconds kTickInterval{200};
constexpr std::chrono::milliseconds kShutdownGrace{1000};

TimePoint Now() {
  return std::chrono::steady_clock::now();
}

class AttachReactor;

// A report may be older than the end of a job whose op waited.
v1::AgentReport WithoutEndedJobs(v1::AgentReport report, const v1::Status& status) {
  const auto has_ended = [&](const v1::WaitingOp& op) {
    return std::none_of(status.jobs().begin(), status.jobs().end(), [&](const v1::JobStatus& job) {
      return job.job() == op.job();
    });
  };
  auto& waiting = *report.mutable_waiting();
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(), has_ended), waiting.end());
  return report;
}

// The core and the streams that it speaks to.
class Switchboard {
 public:
  Switchboard(const CoordinatorOptions& options)
      : options_(options),
        start_(Now()),
        membership_(
            options.membership,
            [random = std::mt19937_64(std::random_device()())]() mutable { return random(); }) {}

  ConnectionId Add(AttachReactor* stream) {
    std::lock_guard lock(mutex_);
    streams_[++last_connection_] = stream;
    return last_connection_;
  }

  void Handle(const Event& event) {
    Run([&] { return membership_.Handle(event, Now()); });
  }

  void Tick() {
    Run([this] { return membership_.Tick(Now()); });
  }

  void KeepReport(ConnectionId connection, const v1::AgentReport& report) {
    std::lock_guard lock(mutex_);
    reports_[connection] = report;
  }

  // The stream is over; nothing is sent to it any more when this returns.
  void Remove(ConnectionId connection) {
    Handle(AgentDetached{connection});
    std::lock_guard lock(mutex_);
    streams_.erase(connection);
    reports_.erase(connection);
  }

  void EndAll();

  Snapshot TakeSnapshot() const {
    std::lock_guard lock(mutex_);
    return membership_.TakeSnapshot(Now());
  }

  void FillStatus(v1::Status& status) const {
    std::lock_guard lock(mutex_);
    const Snapshot snapshot = membership_.TakeSnapshot(Now());
    server::FillStatus(snapshot, status);
    status.set_version(options_.membership.version);
    status.set_uptime_seconds(std::chrono::duration<double>(Now() - start_).count());
    for (std::size_t i = 0; i < snapshot.nodes.size(); ++i) {
      if (auto report = reports_.find(snapshot.nodes[i].connection); report != reports_.end()) {
        *status.mutable_nodes(static_cast<int>(i))->mutable_report() =
            WithoutEndedJobs(report->second, status);
      }
    }
  }

 private:
  // Decides and sends under the lock, so that two decisions never overtake each other on a stream;
  // logs outside of it, since a full pipe behind standard error must not hold up membership.
  template <typename Decide>
  void Run(Decide decide) {
    std::vector<Action> actions;
    {
      std::lock_guard lock(mutex_);
      actions = decide();
      for (const Action& action : actions) {
        Carry(action);
      }
    }
    for (const Action& action : actions) {
      if (const auto* line = std::get_if<LogLine>(&action); line != nullptr && options_.log) {
        options_.log(*line);
      }
    }
  }

  void Carry(const Action& action);

  const CoordinatorOptions& options_;
  const TimePoint start_;
  mutable std::mutex mutex_;
  Membership membership_;
  ConnectionId last_connection_ = 0;
  std::unordered_map<ConnectionId, AttachReactor*> streams_;
  std::unordered_map<ConnectionId, v1::AgentReport> reports_;
};

// One agent's stream. Deletes itself when gRPC is done with it.
class AttachReactor final
    : public grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage> {
 public:
  AttachReactor(Switchboard& switchboard, grpc::CallbackServerContext& context)
      : switchboard_(switchboard), context_(context), connection_(switchboard.Add(this)) {
    StartRead(&incoming_);
  }

  // Queued in order. Called with the switchboard's lock held.
  void Send(v1::CoordinatorMessage message) {
    const v1::CoordinatorMessage* front = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (end_wanted_) {
        return;
      }
      if (outgoing_.size() >= kQueuedMessagesMax) {
        context_.TryCancel();  // the agent does not read what it is told; it will attach again
        return;
      }
      outgoing_.push_back(std::move(message));
      if (writing_) {
        return;
      }
      writing_ = true;
      front = &outgoing_.front();
    }
    StartWrite(front);
  }

  // Ends the stream after what is queued.
  void End(grpc::Status status) {
    {
      std::lock_guard lock(mutex_);
      if (end_wanted_) {
        return;
      }
      end_wanted_ = true;
      end_status_ = std::move(status);
    }
    FinishIfDone();
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      switchboard_.Handle(AgentDetached{connection_});
      End(grpc::Status::OK);
      return;
    }
    if (incoming_.has_hello() == has_hello_) {
      End(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                       "`hello` must be the first message and come once"));
      return;
    }
    has_hello_ = true;
    if (incoming_.has_report()) {
      switchboard_.KeepReport(connection_, incoming_.report());
    } else if (std::optional<Event> event = ToEvent(incoming_, connection_)) {
      switchboard_.Handle(*event);
    }
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    const v1::CoordinatorMessage* front = nullptr;
    {
      std::lock_guard lock(mutex_);
      outgoing_.pop_front();
      if (!ok) {
        outgoing_.clear();
      }
      writing_ = !outgoing_.empty();
      front = writing_ ? &outgoing_.front() : nullptr;
    }
    if (front != nullptr) {
      StartWrite(front);
    } else {
      FinishIfDone();
    }
  }

  void OnDone() override {
    switchboard_.Remove(connection_);
    delete this;
  }

  void FinishIfDone() {
    {
      std::lock_guard lock(mutex_);
      if (!end_wanted_ || writing_ || finished_) {
        return;
      }
      finished_ = true;
    }
    Finish(end_status_);
  }

  Switchboard& switchboard_;
  grpc::CallbackServerContext& context_;
  v1::AgentMessage incoming_;  // with has_hello_: reading side only
  bool has_hello_ = false;

  std::mutex mutex_;                             // guards what follows
  std::deque<v1::CoordinatorMessage> outgoing_;  // the front is being written while writing_
  bool writing_ = false;
  bool end_wanted_ = false;
  bool finished_ = false;
  grpc::Status end_status_;

  const ConnectionId connection_;  // last: whoever finds it uses all of the above
};

void Switchboard::Carry(const Action& action) {
  if (const auto* close = std::get_if<CloseConnection>(&action)) {
    if (auto stream = streams_.find(close->connection); stream != streams_.end()) {
      stream->second->End(grpc::Status(grpc::StatusCode::ABORTED, "this agent attached again"));
    }
    return;
  }
  v1::CoordinatorMessage message;
  const std::optional<Outgoing> outgoing = ToMessage(action, options_.membership.version, message);
  const auto stream = outgoing ? streams_.find(outgoing->connection) : streams_.end();
  if (stream == streams_.end()) {
    return;
  }
  const std::string text = message.has_refused() ? message.refused().text() : "";
  stream->second->Send(std::move(message));
  if (outgoing->is_last) {
    stream->second->End(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, text));
  }
}

void Switchboard::EndAll() {
  std::lock_guard lock(mutex_);
  for (const auto& [connection, stream] : streams_) {
    stream->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator is shutting down"));
  }
}

class Service final : public v1::Coordinator::CallbackService {
 public:
  explicit Service(Switchboard& switchboard) : switchboard_(switchboard) {}

  grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage>* Attach(
      grpc::CallbackServerContext* context) override {
    return new AttachReactor(switchboard_, *context);  // deletes itself in OnDone
  }

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::StatusRequest*,
                                      v1::Status* status) override {
    switchboard_.FillStatus(*status);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* ProbeLinks(grpc::CallbackServerContext* context,
                                       const v1::ProbeLinksRequest*,
                                       v1::ProbeLinksReply*) override {
    switchboard_.Handle(LinksWanted{});
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  Switchboard& switchboard_;
};

class GrpcCoordinatorServer final : public CoordinatorServer {
 public:
  explicit GrpcCoordinatorServer(CoordinatorOptions options)
      : options_(std::move(options)), switchboard_(options_), service_(switchboard_) {}

  ~GrpcCoordinatorServer() override { Shutdown(); }

  absl::Status Start() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    const std::string address = Address();
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    SetArguments(builder);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return absl::UnavailableError("--port " + std::to_string(options_.port) + ", --listen " +
                                    options_.listen + ": cannot listen on " + address +
                                    "; is the port in use, or the address not of this machine?");
    }
    port_ = static_cast<std::uint16_t>(port);
    server_->GetHealthCheckService()->SetServingStatus(v1::Coordinator::service_full_name(), true);
    ticker_ = std::thread([this] { KeepTicking(); });
    return absl::OkStatus();
  }

  std::uint16_t port() const override { return port_; }

  daemon::HttpAnswer Health(TimePoint now) const override { return watch_.Health(now); }

  Snapshot TakeSnapshot() const override { return switchboard_.TakeSnapshot(); }

  void Shutdown() override {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(stopping_, true) || server_ == nullptr) {
        return;
      }
    }
    stop_.notify_all();
    if (ticker_.joinable()) {
      ticker_.join();
    }
    server_->GetHealthCheckService()->SetServingStatus(false);
    switchboard_.EndAll();
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    server_->Wait();
  }

 private:
  std::string Address() const {
    const bool is_v6 = options_.listen.find(':') != std::string::npos;
    return (is_v6 ? "[" + options_.listen + "]" : options_.listen) + ":" +
           std::to_string(options_.port);
  }

  static void SetArguments(grpc::ServerBuilder& builder) {
    // Without this two coordinators would share a port and each see half of the agents.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                               static_cast<int>(kKeepaliveInterval.count()));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                               static_cast<int>(kKeepaliveTimeout.count()));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               static_cast<int>(kPingIntervalAccepted.count()));
  }

  void KeepTicking() {
    std::unique_lock lock(mutex_);
    while (!stop_.wait_for(lock, kTickInterval, [this] { return stopping_; })) {
      lock.unlock();
      watch_.BeginRound(Now());
      switchboard_.Tick();
      lock.lock();
    }
  }

  const CoordinatorOptions options_;
  Switchboard switchboard_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::uint16_t port_ = 0;

  daemon::LoopWatch watch_{"the coordinator's clock"};
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread ticker_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Create(
    CoordinatorOptions options) {
  auto server = std::make_unique<GrpcCoordinatorServer>(std::move(options));
  if (absl::Status status = server->Start(); !status.ok()) {
    return status;
  }
  return server;
}

}  // namespace maypole::server
