// maypole-agent: one per node. See --help, and docs/ARCHITECTURE.md.

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "agent/agent.h"
#include "agent/transport/ucx/process.h"
#include "collective/select.h"
#include "daemon/log.h"
#include "daemon/options.h"
#include "daemon/parse.h"
#include "daemon/process_limits.h"
#include "daemon/signals.h"
#include "proto/control.h"
#include "proto/text.h"

namespace maypole::agent {
namespace {

// UCX assembles every frame in a buffer from malloc. By default glibc gives buffers of that size
// back to the kernel, again and again: page faults, 5 % of an agent's CPU time.
void KeepFreedMemory() {
  constexpr int kBufferMax = 4 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kBufferMax);
  ::mallopt(M_TRIM_THRESHOLD, 4 * kBufferMax);
}

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

absl::Status SetNode(const std::string& text, AgentOptions& agent) {
  if (text.empty() || text.size() > kNodeNameBytesMax || !IsPrintableUtf8(text)) {
    return absl::InvalidArgumentError("a node's name is 1 to " + std::to_string(kNodeNameBytesMax) +
                                      " bytes of printable UTF-8");
  }
  agent.core.node = text;
  return absl::OkStatus();
}

// "zone=a,rack=b"
absl::Status SetLabels(const std::string& text, AgentOptions& agent) {
  const auto invalid = [&](const std::string& what) {
    return absl::InvalidArgumentError("\"" + text + "\": " + what +
                                      "; the form is KEY=VALUE,..., outermost first, as in "
                                      "zone=a,rack=b");
  };
  agent.labels.clear();
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string label = text.substr(begin, end - begin);
    const std::size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == label.size() ||
        label.size() > kNodeNameBytesMax || !IsPrintableUtf8(label)) {
      return invalid("\"" + label + "\" is not a label");
    }
    const std::string key = label.substr(0, equals);
    for (const auto& [known, value] : agent.labels) {
      if (known == key) {
        return invalid("the key \"" + key + "\" stands twice");
      }
    }
    agent.labels.emplace_back(key, label.substr(equals + 1));
    begin = end + 1;
  }
  return absl::OkStatus();
}

void SliceBytes(daemon::Options& options,
                const std::string& name,
                std::uint32_t* target,
                const std::string& help) {
  options.Custom(
      {.name = name,
       .form = "SIZE",
       .default_text = std::to_string(*target / 1024) + "KiB",
       .help = help + "; 4KiB to 64MiB",
       .apply = [target](const std::string& text) {
         const auto bytes = daemon::ParseBytes(text);
         if (bytes.ok() &&
             (*bytes < collective::kSliceBytesMin || *bytes > collective::kSliceBytesMax)) {
           return absl::InvalidArgumentError("\"" + text + "\" is not a size from 4KiB to 64MiB");
         }
         *target = bytes.ok() ? static_cast<std::uint32_t>(*bytes) : *target;
         return bytes.status();
       }});
}

void Declare(daemon::Options& options, AgentOptions& agent) {
  using std::chrono::milliseconds;
  options.HostPort("coordinator", &agent.coordinator, "the coordinator's gRPC address");
  options.Custom({.name = "node",
                  .form = "NAME",
                  .default_text = agent.core.node,
                  .help = "stable name of this node, unique in the cluster",
                  .apply = [&agent](const std::string& text) { return SetNode(text, agent); }});
  options.Custom({.name = "labels",
                  .form = "KEY=VALUE,...",
                  .default_text = "",
                  .help =
                      "where this node stands, outermost first: zone=a,rack=b. Nodes with equal "
                      "labels form groups (docs/algorithms.md)",
                  .apply = [&agent](const std::string& text) { return SetLabels(text, agent); }});
  options.Text(
      "socket", "PATH", &agent.socket, "Unix socket for the training processes of this node");
  options.Text("interface",
               "NAME",
               &agent.interface,
               "network interface for data between agents: eth0, or mlx5_0:1,eth0 with RDMA; auto: "
               "the one that leads to the coordinator. Only members "
               "of the cluster may reach it (docs/wire_format.md)");
  options.Port("peer-port", &agent.peer_port, "TCP port for data between agents");
  options.Text(
      "ucx-tls", "LIST", &agent.ucx_tls, "UCX transports: auto, or some of rc,ud,dc,tcp,self");
  options.Text(
      "http-listen", "ADDRESS", &agent.http_listen, "address for /metrics, /healthz and /readyz");
  options.Port("http-port", &agent.http_port, "port for /metrics, /healthz and /readyz");
  options.Text("ports-file",
               "PATH",
               &agent.ports_file,
               "write the ports in use there, as JSON, when all are listening");
  options.Integer("reduce-threads",
                  &agent.reduce_threads,
                  1,
                  256,
                  "threads that sum, the loop's own among them");
  options.Time(
      "spin",
      &agent.spin,
      Duration(0),
      "spin so long before sleeping while an op is in flight and a core is free; 0: never");
  options.Time("peer-lease",
               &agent.core.lease,
               milliseconds(100),
               "another agent that is silent for longer is lost");
  options.Time("default-timeout",
               &agent.core.default_timeout,
               milliseconds(1),
               "deadline of ops that name none");
  options.Time("stall-report-after",
               &agent.core.stall_report_after,
               milliseconds(1),
               "report ops that wait for longer");
  options.Time("coordinator-patience",
               &agent.core.coordinator_patience,
               milliseconds(1),
               "joining ranks fail when the coordinator has been out of reach for so long");
  SliceBytes(
      options,
      "slice-bytes",
      &agent.core.slice_bytes,
      "one data frame between agents where no tuning table says otherwise; the first member of a "
      "job decides for all");
  SliceBytes(options,
             "local-slice-bytes",
             &agent.core.local_slice_bytes,
             "one piece of summing where a node is alone in its job");
  options.Bytes(
      "window-bytes", &agent.core.window_bytes, 1, "data handed to the network per peer at a time");
  // What a client asks for at the first small tensor.
  options.Bytes("segment-bytes-max",
                &agent.segment_bytes_max,
                4 << 20,
                "shared memory that one rank may have");
  options.Bytes("result-bytes-max",
                &agent.memory.result_bytes_per_job_max,
                4096,
                "shared results that one job may hold");
  options.Bytes("scratch-cache-bytes",
                &agent.memory.scratch_cache_bytes,
                0,
                "freed scratch memory that is kept for the next op");
}

absl::Status Serve(AgentOptions options, daemon::StopSignals& stop) {
  if (absl::Status status = daemon::TakeWhatIsPermitted(); !status.ok()) {
    return status;
  }
  auto agent = Agent::Create(std::move(options));
  return agent.ok() ? (*agent)->Run(stop) : agent.status();
}

int Main(int argc, char** argv) {
  ReclaimProcessFromUcx();
  KeepFreedMemory();
  AgentOptions agent_options;
  agent_options.core.node = agent_options.core.host = HostName();
  std::string log_level = "info";
  daemon::Options options("maypole-agent",
                          "Sums the gradients of this node's training processes, and with the "
                          "agents of the other nodes.");
  Declare(options, agent_options);
  daemon::AddLogLevel(options, &log_level);
  if (const auto code = options.ParseProcess(argc, argv)) {
    return *code;
  }
  auto stop = daemon::StopSignals::Create();
  daemon::InitLog(daemon::LogLevelOf(log_level), "maypole-agent");
  if (!stop.ok()) {
    daemon::LogError(std::string(stop.status().message()));
    return 1;
  }
  if (const absl::Status status = Serve(std::move(agent_options), *stop); !status.ok()) {
    daemon::LogError(std::string(status.message()));
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace maypole::agent

int main(int argc, char** argv) {
  return maypole::agent::Main(argc, argv);
}
