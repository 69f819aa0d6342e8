// The gRPC edge, by raw calls; agent/control's tests drive it with the real client.
#include "server/coordinator_service.h"

#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "daemon/loop_watch.h"
#include "proto/control.h"
#include "proto/coordinator.grpc.pb.h"

namespace maypole::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::chrono::seconds kPatience{20};

CoordinatorOptions Loopback(std::uint16_t port = 0) {
  return {.listen = "127.0.0.1", .port = port, .membership = {.version = "1.0"}, .log = {}};
}

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
}

class CoordinatorService : public testing::Test {
 protected:
  v1::Status GetStatus() {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::Status status;
    EXPECT_TRUE(stub_->GetStatus(&context, {}, &status).ok());
    return status;
  }

  std::unique_ptr<CoordinatorServer> server_ = *CoordinatorServer::Create(Loopback());
  std::shared_ptr<grpc::Channel> channel_ = grpc::CreateChannel(
      "127.0.0.1:" + std::to_string(server_->port()), grpc::InsecureChannelCredentials());
  std::unique_ptr<v1::Coordinator::Stub> stub_ = v1::Coordinator::NewStub(channel_);
};

v1::AgentMessage Hello(const std::string& node) {
  v1::AgentMessage message;
  message.mutable_hello()->set_node(node);
  message.mutable_hello()->set_incarnation(1);
  message.mutable_hello()->set_host("h");
  message.mutable_hello()->set_protocol(kControlProtocol);
  return message;
}

// One Attach stream by the synchronous interface.
struct Attachment {
  explicit Attachment(v1::Coordinator::Stub& stub) {
    SetDeadline(context);
    stream = stub.Attach(&context);
  }

  v1::CoordinatorMessage Read() {
    v1::CoordinatorMessage message;
    EXPECT_TRUE(stream->Read(&message));
    return message;
  }

  grpc::Status End() {
    stream->WritesDone();
    v1::CoordinatorMessage message;
    while (stream->Read(&message)) {
    }
    return stream->Finish();
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AgentMessage, v1::CoordinatorMessage>> stream;
};

TEST_F(CoordinatorService, AnswersStatusWithVersionAndUptime) {
  const v1::Status status = GetStatus();
  EXPECT_EQ(status.version(), "1.0");
  EXPECT_GE(status.uptime_seconds(), 0);
  EXPECT_THAT(status.nodes(), IsEmpty());
}

TEST_F(CoordinatorService, ShowsNodesWithTheirReportsAndFormingJobsWithWhoIsMissing) {
  Attachment agent(*stub_);
  agent.stream->Write(Hello("a"));
  EXPECT_EQ(agent.Read().welcome().version(), "1.0");
  v1::AgentMessage message;
  message.mutable_report()->set_ops(17);
  message.mutable_report()->add_waiting()->set_job("ended since");
  message.mutable_report()->add_waiting()->set_job("train");
  agent.stream->Write(message);
  message.mutable_join()->set_job("train");
  message.mutable_join()->set_rank(1);
  message.mutable_join()->set_world_size(2);
  agent.stream->Write(message);
  message.mutable_join()->set_rank(2);
  agent.stream->Write(message);
  EXPECT_TRUE(agent.Read().has_join_refused());  // so the earlier ones have been handled

  const v1::Status status = GetStatus();
  ASSERT_THAT(status.nodes(), SizeIs(1));
  EXPECT_TRUE(status.nodes(0).attached());
  EXPECT_EQ(status.nodes(0).report().ops(), 17u);
  ASSERT_THAT(status.nodes(0).report().waiting(), SizeIs(1));
  EXPECT_EQ(status.nodes(0).report().waiting(0).job(), "train");
  ASSERT_THAT(status.jobs(), SizeIs(1));
  EXPECT_EQ(status.jobs(0).state(), "forming");
  EXPECT_EQ(status.jobs(0).members(0).ranks(0), 1u);
  EXPECT_THAT(status.jobs(0).missing_ranks(), testing::ElementsAre(0));
  EXPECT_TRUE(agent.End().ok());
}

TEST_F(CoordinatorService, RefusesAStreamThatDoesNotBeginWithHello) {
  Attachment agent(*stub_);
  v1::AgentMessage message;
  message.mutable_join()->set_job("train");
  agent.stream->Write(message);
  const grpc::Status status = agent.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("hello"));
}

TEST_F(CoordinatorService, RefusesASecondHello) {
  Attachment agent(*stub_);
  agent.stream->Write(Hello("a"));
  agent.stream->Write(Hello("b"));
  EXPECT_EQ(agent.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(CoordinatorService, TellsARefusedAgentWhyAndEndsItsStream) {
  Attachment agent(*stub_);
  v1::AgentMessage hello = Hello("a");
  hello.mutable_hello()->set_protocol(99);
  agent.stream->Write(hello);
  EXPECT_THAT(agent.Read().refused().text(), HasSubstr("protocol 99"));
  const grpc::Status status = agent.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("protocol 99"));
}

TEST_F(CoordinatorService, EndsStreamsWithAReasonWhenItShutsDown) {
  Attachment agent(*stub_);
  agent.stream->Write(Hello("a"));
  agent.Read();
  server_->Shutdown();
  const grpc::Status status = agent.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("shutting down"));
}

// Health and reflection have no C++ stubs in Debian; their wire forms are simple enough to speak by
// hand.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& method,
                     const std::string& request,
                     std::string& response) {
  grpc::ClientContext context;
  SetDeadline(context);
  grpc::Slice slice(request);
  grpc::ByteBuffer in(&slice, 1);
  grpc::ByteBuffer out;
  std::promise<grpc::Status> done;
  grpc::GenericStub(channel).UnaryCall(
      &context, method, {}, &in, &out, [&](grpc::Status result) { done.set_value(result); });
  const grpc::Status status = done.get_future().get();
  std::vector<grpc::Slice> slices;
  if (status.ok() && out.Dump(&slices).ok()) {
    for (const grpc::Slice& part : slices) {
      response.append(reinterpret_cast<const char*>(part.begin()), part.size());
    }
  }
  return status;
}

TEST_F(CoordinatorService, ServesHealthForItselfAndByName) {
  const std::string name = v1::Coordinator::service_full_name();
  for (const std::string& service : {std::string(), name}) {
    // HealthCheckRequest{service = 1}
    const std::string request =
        service.empty() ? "" : std::string("\x0a") + static_cast<char>(service.size()) + service;
    std::string response;
    EXPECT_TRUE(CallRaw(channel_, "/grpc.health.v1.Health/Check", request, response).ok());
    EXPECT_EQ(response, "\x08\x01") << "status = SERVING";
  }
  std::string response;
  EXPECT_EQ(CallRaw(channel_, "/grpc.health.v1.Health/Check", "\x0a\x01x", response).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(CoordinatorService, ServesReflection) {
  // ServerReflectionRequest{list_services = 7: ""}; the method streams both ways, one of each is
  // enough.
  std::string response;
  const grpc::Status status =
      CallRaw(channel_,
              "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x3a\x00", 2),
              response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response, HasSubstr("maypole.v1.Coordinator"));
}

TEST_F(CoordinatorService, IsWellAsLongAsItsClockTicks) {
  const TimePoint begin = std::chrono::steady_clock::now();
  // Before its first tick nothing can be said.
  while (server_->Health(begin + std::chrono::hours(1)).ok &&
         std::chrono::steady_clock::now() < begin + kPatience) {
    std::this_thread::yield();
  }
  const TimePoint start = std::chrono::steady_clock::now();
  // Too late for a clock that has stood still since before the start.
  EXPECT_FALSE(server_->Health(start + std::chrono::hours(1)).ok);
  const TimePoint later = start + daemon::LoopWatch::kRoundMax + std::chrono::milliseconds(1);
  while (!server_->Health(later).ok && std::chrono::steady_clock::now() < start + kPatience) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(server_->Health(later).ok);
}

TEST(CoordinatorHealth, SaysThatTheClockStandsStill) {
  std::promise<void> stuck;
  std::promise<void> go_on;
  CoordinatorOptions options = Loopback();
  options.membership.agent_lease = std::chrono::milliseconds(1);
  options.log = [&](const LogLine& line) {
    if (line.text.find("has not been attached") != std::string::npos) {  // said by the clock
      stuck.set_value();
      go_on.get_future().wait();
    }
  };
  const auto server = *CoordinatorServer::Create(options);
  const auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(server->port()),
                                           grpc::InsecureChannelCredentials());
  const auto stub = v1::Coordinator::NewStub(channel);
  Attachment agent(*stub);
  agent.stream->Write(Hello("a"));
  agent.Read();
  EXPECT_TRUE(agent.End().ok());
  stuck.get_future().wait();
  const TimePoint now = std::chrono::steady_clock::now();
  EXPECT_TRUE(server->Health(now).ok);
  const daemon::HttpAnswer late =
      server->Health(now + daemon::LoopWatch::kRoundMax + std::chrono::milliseconds(1));
  EXPECT_FALSE(late.ok);
  EXPECT_THAT(late.text, HasSubstr("the coordinator's clock has stood still for 10 s"));
  go_on.set_value();
}

TEST(CoordinatorPort, InUseIsAnErrorThatNamesTheOption) {
  auto first = CoordinatorServer::Create(Loopback());
  ASSERT_TRUE(first.ok());
  const std::string port = std::to_string((*first)->port());
  auto second = CoordinatorServer::Create(Loopback((*first)->port()));
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr("--port"), HasSubstr(port), HasSubstr("in use")));
}

TEST(CoordinatorPort, IsFreeAgainAfterShutdown) {
  auto first = CoordinatorServer::Create(Loopback());
  const std::uint16_t port = (*first)->port();
  (*first)->Shutdown();
  EXPECT_TRUE(CoordinatorServer::Create(Loopback(port)).ok());
}

}  // namespace
}  // namespace maypole::server
