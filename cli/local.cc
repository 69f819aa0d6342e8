// `maypole local`: a whole cluster on this machine, and one command per rank on it.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/cluster_flags.h"
#include "cli/commands.h"
#include "cli/local_cluster.h"
#include "cli/rank_run.h"

namespace maypole::cli {
namespace {

struct LocalFlags {
  std::uint32_t nodes = 2;
  std::uint32_t ranks_per_node = 1;
  ClusterFlags cluster;
  double grace_seconds = 10;
  std::vector<std::string> command;
};

absl::StatusOr<int> RunLocal(const LocalFlags& flags) {
  absl::StatusOr<daemon::StopSignals> stop = daemon::StopSignals::Create();
  if (!stop.ok()) {
    return stop.status();
  }
  const absl::StatusOr<LocalClusterOptions> options =
      ToClusterOptions(flags.cluster, flags.nodes, flags.ranks_per_node);
  if (!options.ok()) {
    return options.status();
  }
  const absl::StatusOr<Janitor> janitor = Janitor::Start();
  if (!janitor.ok()) {
    return janitor.status();
  }
  absl::StatusOr<std::unique_ptr<LocalCluster>> cluster =
      LocalCluster::Start(*options, *janitor, *stop);
  if (!cluster.ok()) {
    return CodeOrError(*stop, cluster.status());
  }
  std::vector<ChildOptions> ranks;
  for (std::uint32_t rank = 0; rank < (*cluster)->world_size(); ++rank) {
    ChildOptions child;
    child.argv = flags.command;
    child.environment = (*cluster)->RankEnvironment(rank);
    child.net_namespace = (*cluster)->NetNamespaceOf(rank);
    ranks.push_back(std::move(child));
  }
  return RunRanks(ranks,
                  {.grace_seconds = flags.grace_seconds},
                  {*janitor, *stop, (*cluster)->daemons(), (*cluster)->WhereToLook()},
                  PrefixedOutput());
}

}  // namespace

void AddLocalCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<LocalFlags>();
  CLI::App* command = app.add_subcommand(
      "local", "Start a coordinator and agents on this machine and run a command once per rank");
  command->add_option("--nodes", flags->nodes, "Nodes: one agent each")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--ranks-per-node", flags->ranks_per_node, "Ranks on every node")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  AddClusterFlags(*command, flags->cluster);
  command
      ->add_option("--grace",
                   flags->grace_seconds,
                   "Seconds between the first failure of a rank and the end of the others")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command
      ->add_option("command", flags->command, "After --: the program of a rank and its arguments")
      ->required();
  command->footer(
      "Every rank gets MAYPOLE_SOCKET MAYPOLE_JOB MAYPOLE_COORDINATOR RANK WORLD_SIZE LOCAL_RANK\n"
      "LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT. OMP_NUM_THREADS is left as it is: set it to 1 "
      "where ranks\nshare cores.\n"
      "What the daemons warn of goes to standard error as [agent N] or [coordinator].\n"
      "Exit code: of the rank that failed first; 130 after Ctrl-C; 1 if a daemon died.\n"
      "Example: maypole local --nodes 4 --ranks-per-node 2 -- python3 train.py");
  command->callback([flags, &exit_code] {
    const absl::StatusOr<int> code = RunLocal(*flags);
    exit_code = code.ok() ? *code : Fail("local", std::string(code.status().message()));
  });
}

}  // namespace maypole::cli
