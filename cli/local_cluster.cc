#include "cli/local_cluster.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <utility>

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <nlohmann/json.hpp>

#include "daemon/options.h"

namespace maypole::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kStartLimit(30);
constexpr double kStopSeconds = 5;
constexpr int kMasterPortInNamespaces = 29500;
constexpr std::size_t kTailLines = 15;

// A port that was free a moment ago, for MASTER_PORT: what the ranks do with it is theirs.
int FreePort() {
  const UniqueFd socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(socket_fd.get(), generic, length) != 0 ||
      getsockname(socket_fd.get(), generic, &length) != 0) {
    return kMasterPortInNamespaces;
  }
  return ntohs(address.sin_port);
}

// The port under `key`, or 0 while the file is not there.
int ReadPort(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  const nlohmann::json ports = nlohmann::json::parse(file, nullptr, false);
  return ports.is_object() ? ports.value(key, 0) : 0;
}

}  // namespace

std::string TailOf(const std::string& path) {
  std::deque<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > kTailLines) {
      lines.pop_front();
    }
  }
  std::string text;
  for (const std::string& line : lines) {
    absl::StrAppend(&text, "    ", line, "\n");
  }
  return text.empty() ? "    (it printed nothing)\n" : text;
}

std::string OwnFolder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

LocalCluster::LocalCluster(const LocalClusterOptions& options, const Janitor& janitor)
    : options_(options),
      janitor_(janitor),
      master_port_(options.use_namespaces ? kMasterPortInNamespaces : FreePort()) {}

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(
    const LocalClusterOptions& options, const Janitor& janitor, daemon::StopSignals& stop) {
  if (!options.use_namespaces &&
      (options.bits_per_second > 0 || !options.congestion_control.empty())) {
    return absl::InvalidArgumentError(
        "--rate and --congestion-control shape the links between network namespaces: add --netns");
  }
  std::unique_ptr<LocalCluster> cluster(new LocalCluster(options, janitor));
  if (options.use_namespaces) {
    absl::StatusOr<VirtualNetwork> network = VirtualNetwork::Create(
        {options.nodes, options.bits_per_second, options.congestion_control});
    if (!network.ok()) {
      return network.status();
    }
    cluster->network_ = *std::move(network);
  }
  absl::Status status = cluster->StartCoordinator(stop);
  if (status.ok()) {
    status = cluster->StartAgents(stop);
  }
  if (!status.ok()) {
    return status;
  }
  return cluster;
}

LocalCluster::~LocalCluster() {
  std::vector<ChildProcess*> children;
  // Agents first: an agent that loses its coordinator on the way out would complain.
  for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon) {
    children.push_back(&daemon->process);
  }
  EndAll(children, kStopSeconds);
  for (const Daemon& daemon : daemons_) {
    janitor_.Forget(daemon.process.pid());
  }
}

std::string LocalCluster::PathOf(const std::string& file) const {
  return absl::StrCat(janitor_.folder(), "/", file);
}

std::string LocalCluster::BinaryOf(const std::string& name) const {
  return absl::StrCat(
      options_.daemon_folder.empty() ? OwnFolder() : options_.daemon_folder, "/", name);
}

absl::Status LocalCluster::StartDaemon(const std::string& name,
                                       const std::string& file,
                                       std::vector<std::string> argv,
                                       int net_namespace) {
  const std::string log = PathOf(absl::StrCat(file, ".log"));
  const UniqueFd output(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ChildOptions child;
  child.argv = std::move(argv);
  child.argv.insert(child.argv.end(), {"--ports-file", PathOf(absl::StrCat(file, ".ports"))});
  child.without = {daemon::kConfigVariable};  // it names a file for us
  child.stdout_fd = output.get();
  child.stderr_fd = output.get();
  child.net_namespace = net_namespace;
  absl::StatusOr<ChildProcess> process = ChildProcess::Start(child);
  if (!process.ok()) {
    return process.status();
  }
  janitor_.Watch(process->pid());
  daemons_.push_back({name, log, *std::move(process)});
  return absl::OkStatus();
}

absl::Status LocalCluster::StartCoordinator(daemon::StopSignals& stop) {
  const std::string host = network_ ? VirtualNetwork::SwitchAddress() : "127.0.0.1";
  absl::Status status = StartDaemon(
      "coordinator",
      "coordinator",
      {BinaryOf("maypole-coordinator"), "--listen", host, "--port", "0", "--http-port", "0"},
      network_ ? network_->switch_namespace() : -1);
  if (!status.ok()) {
    return status;
  }
  const absl::StatusOr<int> port = AwaitPort(0, "coordinator", "grpc", stop);
  if (port.ok()) {
    coordinator_address_ = absl::StrCat(host, ":", *port);
  }
  return port.status();
}

absl::Status LocalCluster::StartAgents(daemon::StopSignals& stop) {
  const auto file_of = [](std::uint32_t node) { return absl::StrCat("node-", node); };
  for (std::uint32_t node = 0; node < options_.nodes; ++node) {
    const std::string interface = network_ ? VirtualNetwork::kInterface : "lo";
    std::vector<std::string> argv = {BinaryOf("maypole-agent"),
                                     "--coordinator",
                                     coordinator_address_,
                                     "--node",
                                     file_of(node),
                                     "--socket",
                                     PathOf(absl::StrCat(file_of(node), ".sock")),
                                     "--interface",
                                     interface,
                                     "--peer-port",
                                     "0",
                                     "--http-port",
                                     "0"};
    if (options_.reduce_threads) {
      argv.insert(argv.end(), {"--reduce-threads", std::to_string(*options_.reduce_threads)});
    }
    absl::Status status = StartDaemon(absl::StrCat("agent ", node),
                                      file_of(node),
                                      std::move(argv),
                                      network_ ? network_->node_namespace(node) : -1);
    if (!status.ok()) {
      return status;
    }
  }
  for (std::uint32_t node = 0; node < options_.nodes; ++node) {
    const absl::StatusOr<int> port = AwaitPort(node + 1, file_of(node), "http", stop);
    if (!port.ok()) {
      return port.status();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> LocalCluster::AwaitPort(std::size_t daemon,
                                            const std::string& file,
                                            const std::string& key,
                                            daemon::StopSignals& stop) {
  const std::string path = PathOf(absl::StrCat(file, ".ports"));
  const UniqueFd changes(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  inotify_add_watch(changes.get(), janitor_.folder().c_str(), IN_MOVED_TO | IN_CLOSE_WRITE);
  const auto deadline = Clock::now() + kStartLimit;
  Daemon& waited_for = daemons_[daemon];
  while (true) {
    if (const int port = ReadPort(path, key); port > 0) {
      return port;
    }
    if (const std::optional<ExitStatus> ended = waited_for.process.Poll()) {
      return absl::UnavailableError(absl::StrCat(waited_for.name,
                                                 " ended at start with ",
                                                 ended->ToString(),
                                                 "; its last lines:\n",
                                                 TailOf(waited_for.log)));
    }
    if (stop.IsPending()) {
      return absl::CancelledError("told to stop while the cluster was starting");
    }
    if (Clock::now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(waited_for.name,
                                                      " is not ready after ",
                                                      kStartLimit.count(),
                                                      " s; its last lines:\n",
                                                      TailOf(waited_for.log)));
    }
    std::array<pollfd, 3> waits = {pollfd{changes.get(), POLLIN, 0},
                                   pollfd{waited_for.process.pidfd(), POLLIN, 0},
                                   pollfd{stop.fd(), POLLIN, 0}};
    poll(waits.data(), waits.size(), 1000);
    std::array<char, 4096> events;
    while (read(changes.get(), events.data(), events.size()) > 0) {
    }
  }
}

std::vector<std::string> LocalCluster::RankEnvironment(std::uint32_t rank) const {
  const std::uint32_t node = rank / options_.ranks_per_node;
  return {absl::StrCat("MAYPOLE_SOCKET=", PathOf(absl::StrCat("node-", node, ".sock"))),
          "MAYPOLE_JOB=local",
          absl::StrCat("MAYPOLE_COORDINATOR=", coordinator_address_),
          absl::StrCat("RANK=", rank),
          absl::StrCat("WORLD_SIZE=", world_size()),
          absl::StrCat("LOCAL_RANK=", rank % options_.ranks_per_node),
          absl::StrCat("LOCAL_WORLD_SIZE=", options_.ranks_per_node),
          absl::StrCat("MASTER_ADDR=", network_ ? VirtualNetwork::NodeAddress(0) : "127.0.0.1"),
          absl::StrCat("MASTER_PORT=", master_port_)};
}

std::string LocalCluster::WhereToLook() const {
  // Nobody outside of the namespaces reaches a coordinator in them.
  return absl::StrCat(network_ ? ""
                               : absl::StrCat("`maypole status --coordinator ",
                                              coordinator_address_,
                                              "` shows what waits for whom; "),
                      "the daemons' logs are in ",
                      janitor_.folder(),
                      " until this command ends");
}

int LocalCluster::NetNamespaceOf(std::uint32_t rank) const {
  return network_ ? network_->node_namespace(rank / options_.ranks_per_node) : -1;
}

}  // namespace maypole::cli
