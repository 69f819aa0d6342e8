// `maypole status`: what the coordinator knows, for a person or as JSON.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include "cli/commands.h"
#include "cli/status_text.h"
#include "daemon/parse.h"
#include "proto/coordinator.grpc.pb.h"

namespace maypole::cli {
namespace {

struct StatusFlags {
  std::string coordinator = "127.0.0.1:7700";
  double timeout_seconds = 3;
  bool as_json = false;
  bool probe_links = false;
};

absl::StatusOr<v1::Status> FetchStatus(const StatusFlags& flags) {
  const absl::StatusOr<daemon::HostPort> address = daemon::ParseHostPort(flags.coordinator);
  if (!address.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--coordinator: ", std::string(address.status().message())));
  }
  const auto stub = v1::Coordinator::NewStub(
      grpc::CreateChannel(flags.coordinator, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int>(flags.timeout_seconds * 1000)));
  v1::Status status;
  grpc::Status called = grpc::Status::OK;
  if (flags.probe_links) {
    grpc::ClientContext probe_context;
    probe_context.set_deadline(context.deadline());
    v1::ProbeLinksReply reply;
    called = stub->ProbeLinks(&probe_context, {}, &reply);
  }
  if (called.ok()) {
    called = stub->GetStatus(&context, {}, &status);
  }
  if (!called.ok()) {
    return absl::UnavailableError(absl::StrCat("no answer from a coordinator at ",
                                               flags.coordinator,
                                               ": ",
                                               called.error_message(),
                                               "; is maypole-coordinator running there? Name "
                                               "another address with --coordinator HOST:PORT"));
  }
  return status;
}

std::string ToJson(const v1::Status& status) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  // Fails only for Any and maps of unknown types, which the message has none of.
  (void)google::protobuf::util::MessageToJsonString(status, &text, options);
  return text;
}

int RunStatus(const StatusFlags& flags) {
  const absl::StatusOr<v1::Status> status = FetchStatus(flags);
  if (!status.ok()) {
    return Fail("status", std::string(status.status().message()));
  }
  std::fputs(flags.as_json ? ToJson(*status).c_str() : StatusText(*status).c_str(), stdout);
  return 0;
}

}  // namespace

void AddStatusCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<StatusFlags>();
  CLI::App* command = app.add_subcommand(
      "status", "Show nodes, jobs, epochs and what waits for whom, as the coordinator knows them");
  command->add_option("--coordinator", flags->coordinator, "HOST:PORT of the coordinator")
      ->envname("MAYPOLE_COORDINATOR")
      ->capture_default_str();
  command->add_option("--timeout", flags->timeout_seconds, "Seconds to wait for the answer")
      ->envname("MAYPOLE_TIMEOUT")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag(
      "--probe-links",
      flags->probe_links,
      "Have the agents measure their links anew, as soon as no op is in flight; a later "
      "status shows what they found");
  command->add_flag("--json", flags->as_json, "Print JSON (the message maypole.v1.Status)");
  command->callback([flags, &exit_code] { exit_code = RunStatus(*flags); });
}

}  // namespace maypole::cli
