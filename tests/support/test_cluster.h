// A coordinator and agents as real processes of a test, each of which can be killed, stopped,
// restarted or started with odd options.
//
// Like cli/local_cluster.h, which is made for running to the end in peace. Threads: one, the main
// thread. Errors: std::runtime_error, which fails the test.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/child_process.h"
#include "cli/janitor.h"
#include "cli/virtual_network.h"
#include "maypole/client.h"

namespace maypole::test {

using client::Session;

// Of the binaries under test.
std::string PathOfBinary(const std::string& name);

struct EndedProcess {
  int code = 0;
  std::string output;
};

// Runs a program that is expected to end by itself.
EndedProcess RunToEnd(std::vector<std::string> argv, std::vector<std::string> environment = {});

// A process that writes a ports file when it is ready.
class DaemonProcess {
 public:
  // `--ports-file` is added. The log and the ports file lie in `folder` under `name`.
  DaemonProcess(const std::string& folder,
                const std::string& name,
                std::vector<std::string> argv,
                int net_namespace = -1);

  // Throws with the log if it ends instead, or takes too long.
  void AwaitReady();

  // Of a daemon that is ready: "grpc", "http".
  int Port(const std::string& key) const;

  std::string Log() const;

  // The whole answer of its HTTP port.
  std::string Get(const std::string& path) const;
  // Of /metrics; 0 while there is no such line. `name` with its labels, if it has some.
  double Metric(const std::string& name) const;

  pid_t pid() const { return process_->pid(); }

  void Signal(int signal);

  // Waits for its end; empty if it lives on.
  std::optional<int> AwaitEnd(double seconds = 10);

  // After SIGTERM: a daemon that crashed, unless by our own SIGKILL, or stays, fails the test.
  void ExpectEndsInPeace();

 private:
  std::string base_;
  std::optional<cli::ChildProcess> process_;
  bool is_killed_ = false;
};

struct ClusterOptions {
  std::uint32_t nodes = 1;
  std::vector<std::string> agent_arguments;
  std::vector<std::string> labels;  // by node; of those that have any
  bool with_coordinator = true;
  bool use_namespaces = false;
  double bits_per_second = 0;  // of every link; needs namespaces
};

class TestCluster {
 public:
  explicit TestCluster(ClusterOptions options);
  ~TestCluster();

  std::uint32_t nodes() const { return options_.nodes; }

  const std::string& folder() const { return janitor_.folder(); }

  DaemonProcess& agent(std::uint32_t node) { return agents_.at(node); }

  DaemonProcess& coordinator() { return *coordinator_; }

  const std::string& coordinator_address() const { return coordinator_address_; }

  std::string SocketOf(std::uint32_t node) const;

  // At the address of the former one. The caller has waited for that one's end.
  void StartCoordinator();
  // Another agent for `node`, in the place of the former one, which has ended.
  void StartAgent(std::uint32_t node);
  // The command line of the agent of `node`, without its ports file.
  std::vector<std::string> AgentCommand(std::uint32_t node) const;

  // Waits for all ranks of the job. `job` and errors as in maypole/client.h.
  Session Connect(std::uint32_t node,
                  std::uint32_t rank,
                  std::uint32_t world_size,
                  const std::string& job = "job",
                  double timeout = 20) const;
  // All ranks of a job, node after node, by rank; `but` is somebody else's to connect.
  std::vector<Session> ConnectAll(std::uint32_t ranks_per_node = 1,
                                  const std::string& job = "job",
                                  std::optional<std::uint32_t> but = std::nullopt) const;

  // Of all daemons.
  std::string Logs() const;

  // `maypole status --json`.
  std::string StatusJson() const;

  const cli::VirtualNetwork& network() const { return *network_; }

 private:
  const ClusterOptions options_;
  cli::Janitor janitor_;
  std::optional<cli::VirtualNetwork> network_;
  int coordinator_port_ = 0;
  std::string coordinator_address_;
  std::optional<DaemonProcess> coordinator_;
  std::map<std::uint32_t, DaemonProcess> agents_;
};

// A TCP port that nobody listens on; nobody else gets it from the system while this lives, and
// a daemon with SO_REUSEADDR can take it.
class ReservedPort {
 public:
  ReservedPort();

  int number() const { return number_; }

  // From now on it is in use.
  void Listen();

 private:
  UniqueFd socket_;
  int number_ = 0;
};

}  // namespace maypole::test
