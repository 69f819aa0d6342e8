#include "agent/control/attach_stream.h"

#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "proto/control.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/coordinator_channel.h"

namespace maypole::agent {
namespace {

constexpr std::size_t kQueuedMessagesMax = 65536;
constexpr int kConnectTimeoutMs = 2000;

grpc::ChannelArguments ChannelArguments() {
  grpc::ChannelArguments arguments = CoordinatorChannelArguments();
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(kKeepaliveInterval.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(kKeepaliveTimeout.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // gRPC gives a connection attempt as long as its least backoff, 20 s unless told otherwise.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

class GrpcAttachStream final
    : public AttachStream,
      private grpc::ClientBidiReactor<v1::AgentMessage, v1::CoordinatorMessage> {
 public:
  GrpcAttachStream(const std::string& coordinator, Callbacks callbacks)
      : callbacks_(std::move(callbacks)),
        stub_(v1::Coordinator::NewStub(grpc::CreateCustomChannel(
            coordinator, grpc::InsecureChannelCredentials(), ChannelArguments()))) {}

  void Begin(const v1::AgentMessage& hello) override {
    stub_->async()->Attach(&context_, this);
    AddHold();  // given back when reading ends; until then writes may start from any thread
    Send(hello);
    StartRead(&incoming_);
    StartCall();
  }

  void Send(const v1::AgentMessage& message) override {
    const v1::AgentMessage* front = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (ended_) {
        return;
      }
      if (outgoing_.size() >= kQueuedMessagesMax) {
        context_.TryCancel();
        return;
      }
      outgoing_.push_back(message);
      if (writing_) {
        return;
      }
      writing_ = true;
      front = &outgoing_.front();
      AddHold();  // keeps the call from ending between here and StartWrite
    }
    StartWrite(front);
    RemoveHold();
  }

  void Cancel() override { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    if (ok) {
      callbacks_.on_message(incoming_);
      StartRead(&incoming_);
      return;
    }
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    RemoveHold();
  }

  void OnWriteDone(bool ok) override {
    const v1::AgentMessage* front = nullptr;
    {
      std::lock_guard lock(mutex_);
      outgoing_.pop_front();
      if (!ok || outgoing_.empty()) {
        writing_ = false;
        return;
      }
      front = &outgoing_.front();
    }
    StartWrite(front);
  }

  void OnDone(const grpc::Status& status) override {
    callbacks_.on_done(status.ok() ? "the coordinator ended the stream" : status.error_message());
  }

  const Callbacks callbacks_;
  grpc::ClientContext context_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
  v1::CoordinatorMessage incoming_;

  std::mutex mutex_;
  std::deque<v1::AgentMessage>
      outgoing_;  // the front is being written while writing_; references stay valid
  bool writing_ = false;
  bool ended_ = false;
};

}  // namespace

std::shared_ptr<AttachStream> AttachStream::Create(const std::string& coordinator,
                                                   Callbacks callbacks) {
  return std::make_shared<GrpcAttachStream>(coordinator, std::move(callbacks));
}

}  // namespace maypole::agent
