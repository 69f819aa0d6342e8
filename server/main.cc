// maypole-coordinator: options, the gRPC port, the HTTP port, and a wait for SIGTERM.
#include <chrono>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/http_endpoint.h"
#include "daemon/log.h"
#include "daemon/options.h"
#include "daemon/ports_file.h"
#include "daemon/process_limits.h"
#include "daemon/signals.h"
#include "daemon/version.h"
#include "server/coordinator_service.h"
#include "server/rules.h"
#include "server/telemetry.h"

namespace maypole::server {
namespace {

constexpr char kName[] = "maypole-coordinator";

struct Settings {
  CoordinatorOptions coordinator;
  std::uint16_t http_port = 7701;
  std::string ports_file;
  std::string log_level = "info";
};

daemon::Options Declare(Settings& settings) {
  daemon::Options options(kName, "Membership and topology of a Maypole cluster");
  CoordinatorOptions& coordinator = settings.coordinator;
  coordinator.membership.probe_links = true;
  options.Text("listen", "ADDRESS", &coordinator.listen, "Address of both ports");
  options.Port("port", &coordinator.port, "Port for agents and `maypole status`, by gRPC");
  options.Port("http-port", &settings.http_port, "Port of /metrics, /healthz and /readyz");
  options.Time("agent-lease",
               &coordinator.membership.agent_lease,
               std::chrono::seconds(1),
               "Jobs of an agent that is not attached for so long fail");
  options.Integer<std::uint32_t>("world-size-max",
                                 &coordinator.membership.world_size_max,
                                 1,
                                 kWorldSizeMax,
                                 "Largest world size of a job");
  options.Switch("probe-links",
                 &coordinator.membership.probe_links,
                 "Have the agents measure the links between them");
  options.Time("probe-patience",
               &coordinator.membership.probe_patience,
               std::chrono::seconds(0),
               "A job whose ranks are all there waits so long for the links between its nodes");
  options.Custom({.name = "tuning-rules",
                  .form = "FILE",
                  .default_text = "",
                  .help = "TOML file with rules for algorithms and slice sizes "
                          "(docs/algorithms.md); gaps fall to the model",
                  .apply = [&coordinator](const std::string& path) {
                    auto rules = ReadRules(path);
                    if (rules.ok()) {
                      coordinator.membership.rules = *std::move(rules);
                    }
                    return rules.status();
                  }});
  options.Text("ports-file", "FILE", &settings.ports_file, "JSON file for the ports in use");
  daemon::AddLogLevel(options, &settings.log_level);
  return options;
}

void Log(const LogLine& line) {
  switch (line.level) {
    case LogLine::Level::kInfo:
      daemon::LogInfo(line.text);
      break;
    case LogLine::Level::kWarning:
      daemon::LogWarning(line.text);
      break;
  }
}

absl::Status Run(Settings settings) {
  if (absl::Status status = daemon::TakeWhatIsPermitted(); !status.ok()) {
    return status;
  }
  absl::StatusOr<daemon::StopSignals> signals = daemon::StopSignals::Create();
  if (!signals.ok()) {
    return signals.status();
  }
  settings.coordinator.membership.version = daemon::Version();
  settings.coordinator.membership.generation = static_cast<std::uint64_t>(
      std::chrono::system_clock::now().time_since_epoch() / std::chrono::microseconds(1));
  settings.coordinator.log = &Log;
  auto server = CoordinatorServer::Create(settings.coordinator);
  if (!server.ok()) {
    return server.status();
  }
  auto http = daemon::HttpEndpoint::Create(
      {.listen = settings.coordinator.listen,
       .port = settings.http_port,
       .metrics = {MakeCoordinatorCollector(daemon::Version(),
                                            [&] { return (*server)->TakeSnapshot(); })},
       .health = [&] { return (*server)->Health(std::chrono::steady_clock::now()); }});
  if (!http.ok()) {
    return http.status();
  }
  absl::Status status = daemon::WritePortsFile(
      settings.ports_file, {{"grpc", (*server)->port()}, {"http", (*http)->port()}});
  if (!status.ok()) {
    return status;
  }
  daemon::LogInfo("version " + daemon::Version() + ", agents on port " +
                  std::to_string((*server)->port()) + ", HTTP on port " +
                  std::to_string((*http)->port()));
  const int signal = signals->Wait();
  daemon::LogInfo("stopping on signal " + std::to_string(signal) + "; running jobs go on");
  (*server)->Shutdown();
  return absl::OkStatus();
}

}  // namespace
}  // namespace maypole::server

int main(int argc, char** argv) {
  maypole::server::Settings settings;
  if (auto exit_code = maypole::server::Declare(settings).ParseProcess(argc, argv)) {
    return *exit_code;
  }
  maypole::daemon::InitLog(maypole::daemon::LogLevelOf(settings.log_level), maypole::server::kName);
  if (absl::Status status = maypole::server::Run(std::move(settings)); !status.ok()) {
    maypole::daemon::LogError(std::string(status.message()));
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
