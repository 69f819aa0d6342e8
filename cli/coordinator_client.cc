#include "cli/coordinator_client.h"

#include <chrono>

#include <absl/strings/str_cat.h>
#include <grpcpp/grpcpp.h>

#include "daemon/parse.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/coordinator_channel.h"

namespace maypole::cli {

absl::StatusOr<v1::Status> FetchStatus(const CoordinatorCall& call) {
  const absl::StatusOr<daemon::HostPort> address = daemon::ParseHostPort(call.address);
  if (!address.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(call.option, ": ", std::string(address.status().message())));
  }
  const auto stub = v1::Coordinator::NewStub(grpc::CreateCustomChannel(
      call.address, grpc::InsecureChannelCredentials(), CoordinatorChannelArguments()));
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::milliseconds(static_cast<int>(call.timeout_seconds * 1000));
  grpc::Status called = grpc::Status::OK;
  if (call.probe_links) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    v1::ProbeLinksReply reply;
    called = stub->ProbeLinks(&context, {}, &reply);
  }
  v1::Status status;
  if (called.ok()) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    called = stub->GetStatus(&context, {}, &status);
  }
  if (called.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the status of the cluster at ", call.address, " does not fit: ", called.error_message()));
  }
  if (!called.ok()) {
    return absl::UnavailableError(absl::StrCat("is maypole-coordinator running at ",
                                               call.address,
                                               "? There is no answer: ",
                                               called.error_message(),
                                               "; name another address with ",
                                               call.option,
                                               " HOST:PORT"));
  }
  return status;
}

}  // namespace maypole::cli
