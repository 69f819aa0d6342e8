// `maypole status`: what the coordinator knows, for a person or as JSON.
#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <absl/status/statusor.h>
#include <google/protobuf/util/json_util.h>

#include "cli/commands.h"
#include "cli/coordinator_client.h"
#include "cli/status_text.h"
#include "proto/coordinator.pb.h"

namespace maypole::cli {
namespace {

struct StatusFlags {
  std::string coordinator = "127.0.0.1:7700";
  double timeout_seconds = 3;
  bool as_json = false;
  bool probe_links = false;
};

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
  const absl::StatusOr<v1::Status> status = FetchStatus({.address = flags.coordinator,
                                                         .timeout_seconds = flags.timeout_seconds,
                                                         .probe_links = flags.probe_links});
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
      ->capture_default_str();
  command->add_option("--timeout", flags->timeout_seconds, "Seconds to wait for the answer")
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
