#include "cli/cluster_flags.h"

#include <CLI/CLI.hpp>
#include <absl/strings/str_cat.h>

#include "daemon/parse.h"

namespace maypole::cli {

void AddClusterFlags(CLI::App& command, ClusterFlags& flags) {
  command.add_flag("--netns",
                   flags.use_namespaces,
                   "Put every node into a network namespace, joined by a bridge (needs root)");
  command.add_option("--rate",
                     flags.rate,
                     "Shape every link to this rate in both directions, e.g. 1gbit (with --netns)");
  command.add_option("--congestion-control",
                     flags.congestion_control,
                     "TCP congestion control of the nodes, e.g. cubic (with --netns)");
  command
      .add_option("--reduce-threads",
                  flags.reduce_threads,
                  "Summing threads of every agent (default: the agent's own)")
      ->check(CLI::Range(1, 256));
}

absl::StatusOr<LocalClusterOptions> ToClusterOptions(const ClusterFlags& flags,
                                                     std::uint32_t nodes,
                                                     std::uint32_t ranks_per_node) {
  LocalClusterOptions options;
  options.nodes = nodes;
  options.ranks_per_node = ranks_per_node;
  options.use_namespaces = flags.use_namespaces;
  options.congestion_control = flags.congestion_control;
  if (flags.reduce_threads > 0) {
    options.reduce_threads = flags.reduce_threads;
  }
  if (!flags.rate.empty()) {
    const absl::StatusOr<std::uint64_t> rate = daemon::ParseBitRate(flags.rate);
    if (!rate.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--rate: ", std::string(rate.status().message())));
    }
    options.bits_per_second = static_cast<double>(*rate);
  }
  return options;
}

}  // namespace maypole::cli
