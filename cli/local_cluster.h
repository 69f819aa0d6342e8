// A coordinator and some agents as child processes of this one, for development, benchmarks and
// tests: on loopback, or with every node in a network namespace behind a shaped link. `maypole
// local` and `maypole bench` run their ranks on it.
//
// Threads: one, the main thread (children die with the thread that started them).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "cli/child_process.h"
#include "cli/janitor.h"
#include "cli/virtual_network.h"
#include "daemon/signals.h"

namespace maypole::cli {

struct LocalClusterOptions {
  std::uint32_t nodes = 1;
  std::uint32_t ranks_per_node = 1;
  bool use_namespaces = false;
  double bits_per_second = 0;                   // of every link, each way; needs namespaces
  std::string congestion_control;               // TCP's; needs namespaces
  std::optional<std::uint32_t> reduce_threads;  // of every agent; empty: the agent's default
  std::string daemon_folder;                    // of the daemons' binaries; empty: beside our own
};

struct Daemon {
  std::string name;  // "coordinator", "agent 2"
  std::string log;   // path of what it prints
  ChildProcess process;
};

class LocalCluster {
 public:
  // Returns when the coordinator listens and all agents serve their sockets. Gives up, with the
  // tail of the log, if a daemon ends or takes too long, or if `stop` is signalled. `janitor` and
  // `stop` must outlive the cluster.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(const LocalClusterOptions& options,
                                                             const Janitor& janitor,
                                                             daemon::StopSignals& stop);
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;
  // Ends the daemons: SIGTERM, and SIGKILL after five seconds.
  ~LocalCluster();

  std::uint32_t world_size() const { return options_.nodes * options_.ranks_per_node; }

  // The variables by which a rank finds its agent and its peers; ranks fill node after node.
  std::vector<std::string> RankEnvironment(std::uint32_t rank) const;

  // Where to look when ranks hang: a sentence for a person.
  std::string WhereToLook() const;

  // The network namespace of a rank's node, or -1.
  int NetNamespaceOf(std::uint32_t rank) const;

  std::vector<Daemon>& daemons() { return daemons_; }

  const std::optional<VirtualNetwork>& network() const { return network_; }

 private:
  LocalCluster(const LocalClusterOptions& options, const Janitor& janitor);

  absl::Status StartCoordinator(daemon::StopSignals& stop);
  absl::Status StartAgents(daemon::StopSignals& stop);
  absl::Status StartDaemon(const std::string& name,
                           const std::string& file,
                           std::vector<std::string> argv,
                           int net_namespace);
  // Waits for the ports file of the daemon and returns the value of `key` there.
  absl::StatusOr<int> AwaitPort(std::size_t daemon,
                                const std::string& file,
                                const std::string& key,
                                daemon::StopSignals& stop);
  std::string PathOf(const std::string& file) const;
  std::string BinaryOf(const std::string& name) const;

  const LocalClusterOptions options_;
  const Janitor& janitor_;
  std::optional<VirtualNetwork> network_;
  std::vector<Daemon> daemons_;
  std::string coordinator_address_;
  int master_port_ = 0;
};

// The last lines of a file, indented, for an error message.
std::string TailOf(const std::string& path);

// The folder that our own executable lies in.
std::string OwnFolder();

}  // namespace maypole::cli
