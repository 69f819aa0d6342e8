// `maypole bench`: times of collectives in the columns that users of nccl-tests know.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>

#include "cli/bench/board.h"
#include "cli/bench/plan.h"
#include "cli/bench/report.h"
#include "cli/cluster_flags.h"
#include "cli/commands.h"
#include "cli/doctor/system_checks.h"
#include "cli/local_cluster.h"
#include "cli/rank_run.h"
#include "cli/sizes.h"

namespace maypole::cli {
namespace {

struct BenchFlags {
  std::string local = "2x1";
  std::vector<std::string> sockets;
  std::string coordinator;  // of those sockets' agents; empty: not asked
  ClusterFlags cluster;
  BenchPlanFlags plan;
  bool as_json = false;
};

// Where the ranks run: a cluster of our own, or agents that run already.
struct Place {
  std::unique_ptr<LocalCluster> cluster;
  std::vector<ChildOptions> ranks;  // environment and namespace are set
  std::string congestion_control;
};

absl::StatusOr<Place> StartCluster(const BenchFlags& flags,
                                   const Janitor& janitor,
                                   daemon::StopSignals& stop) {
  const absl::StatusOr<ClusterShape> shape = ParseClusterShape(flags.local);
  if (!shape.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--local: ", std::string(shape.status().message())));
  }
  const absl::StatusOr<LocalClusterOptions> options =
      ToClusterOptions(flags.cluster, shape->nodes, shape->ranks_per_node);
  if (!options.ok()) {
    return options.status();
  }
  absl::StatusOr<std::unique_ptr<LocalCluster>> cluster =
      LocalCluster::Start(*options, janitor, stop);
  if (!cluster.ok()) {
    return cluster.status();
  }
  Place place;
  place.cluster = *std::move(cluster);
  for (std::uint32_t rank = 0; rank < place.cluster->world_size(); ++rank) {
    ChildOptions child;
    child.environment = place.cluster->RankEnvironment(rank);
    child.net_namespace = place.cluster->NetNamespaceOf(rank);
    place.ranks.push_back(std::move(child));
  }
  if (place.cluster->network()) {
    place.congestion_control = place.cluster->network()->congestion_control();
  }
  return place;
}

// One rank at every socket; a socket named twice gets two.
Place UseSockets(const std::vector<std::string>& sockets, const std::string& coordinator) {
  Place place;
  const std::string job = absl::StrCat("MAYPOLE_JOB=bench-", getpid());
  for (std::size_t rank = 0; rank < sockets.size(); ++rank) {
    ChildOptions child;
    child.environment = {absl::StrCat("MAYPOLE_SOCKET=", sockets[rank]),
                         job,
                         absl::StrCat("MAYPOLE_COORDINATOR=", coordinator),
                         absl::StrCat("RANK=", rank),
                         absl::StrCat("WORLD_SIZE=", sockets.size())};
    place.ranks.push_back(std::move(child));
  }
  return place;
}

// Rows of rank 0 become the table; everything else goes to standard error as it is.
LineSink RowSink(const BenchFlags& flags, std::vector<BenchRow>& rows) {
  return [=, as_json = flags.as_json, &rows](
             std::uint32_t rank, Stream stream, std::string_view line) {
    std::optional<BenchRow> row =
        rank == 0 && stream == Stream::kOut ? FromLine(line) : std::nullopt;
    if (!row) {
      std::fprintf(stderr, "[%u] %.*s\n", rank, static_cast<int>(line.size()), line.data());
      return;
    }
    rows.push_back(*row);
    if (!as_json) {
      std::fputs(TableLine(*row).c_str(), stdout);
      std::fflush(stdout);
    }
  };
}

void PrintHeader(const BenchFlags& flags, const BenchPlan& plan, const Place& place) {
  if (flags.as_json) {
    return;
  }
  std::printf("# %s, %zu ranks, %s, TCP congestion control %s\n",
              Name(plan.collective).data(),
              place.ranks.size(),
              place.cluster ? absl::StrCat("local cluster ",
                                           flags.local,
                                           flags.cluster.use_namespaces ? ", links " : "",
                                           flags.cluster.rate)
                                  .c_str()
                            : "agents at the given sockets",
              place.congestion_control.c_str());
  std::fputs(TableHeader().c_str(), stdout);
}

int CountWrongRows(const std::vector<BenchRow>& rows) {
  int wrong = 0;
  for (const BenchRow& row : rows) {
    wrong += row.wrong.value_or(0) > 0 ? 1 : 0;
  }
  return wrong;
}

absl::StatusOr<int> RunBench(const BenchFlags& flags) {
  const PlanOrError made = ToPlan(flags.plan);
  if (!made.error.empty()) {
    return absl::InvalidArgumentError(made.error);
  }
  absl::StatusOr<daemon::StopSignals> stop = daemon::StopSignals::Create();
  if (!stop.ok()) {
    return stop.status();
  }
  const absl::StatusOr<Janitor> janitor = Janitor::Start();
  if (!janitor.ok()) {
    return janitor.status();
  }
  absl::StatusOr<Place> place = flags.sockets.empty()
                                    ? StartCluster(flags, *janitor, *stop)
                                    : UseSockets(flags.sockets, flags.coordinator);
  if (!place.ok()) {
    return CodeOrError(*stop, place.status());
  }
  if (place->congestion_control.empty()) {
    place->congestion_control = FirstLine("/proc/sys/net/ipv4/tcp_congestion_control");
  }
  const UniqueFd board = Board::Make(static_cast<std::uint32_t>(place->ranks.size()));
  if (!board.valid()) {
    return absl::ResourceExhaustedError("no memory for the measurements");
  }
  for (ChildOptions& rank : place->ranks) {
    rank.argv = {absl::StrCat(OwnFolder(), "/maypole"),
                 "bench-rank",
                 "--board-fd",
                 std::to_string(board.get())};
    const std::vector<std::string> plan = ToArguments(made.plan);
    rank.argv.insert(rank.argv.end(), plan.begin(), plan.end());
    rank.keep_fd = board.get();
  }
  PrintHeader(flags, made.plan, *place);
  std::vector<BenchRow> rows;
  RankRunParts parts{*janitor, *stop, {}, {}};
  if (place->cluster) {
    parts.daemons = place->cluster->daemons();
    parts.where_to_look = place->cluster->WhereToLook();
  }
  const absl::StatusOr<int> code = RunRanks(place->ranks, {}, parts, RowSink(flags, rows));
  if (flags.as_json) {
    std::fputs(ToJson(rows, place->congestion_control).c_str(), stdout);
  }
  if (code.ok() && *code == 0 && CountWrongRows(rows) > 0) {
    return absl::DataLossError("wrong results, see the column #wrong");
  }
  return code;
}

}  // namespace

void AddBenchCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand("bench", "Measure a collective, with nccl-tests' columns");
  CLI::Option* local =
      command->add_option("--local", flags->local, "Start a cluster here: NODESxRANKS, e.g. 4x2")
          ->capture_default_str();
  AddClusterFlags(*command, flags->cluster);
  // Not MAYPOLE_SOCKET, which is there for ranks: a bench in their shell would measure one of them.
  CLI::Option* sockets =
      command
          ->add_option("--socket",
                       flags->sockets,
                       "Use running agents of one cluster, one rank at each of these sockets; one "
                       "named twice gets two")
          ->type_name("PATH")
          ->delimiter(',')
          ->envname("MAYPOLE_BENCH_SOCKET")
          ->excludes(local);
  for (const char* of_cluster : {"--netns", "--rate", "--congestion-control", "--reduce-threads"}) {
    sockets->excludes(command->get_option(of_cluster));
  }
  command->add_option("--coordinator",
                      flags->coordinator,
                      "With --socket: HOST:PORT of their coordinator, which knows the links that "
                      "the model predicts from");
  AddBenchPlanFlags(*command, flags->plan);
  command->add_flag("--json", flags->as_json, "Print JSON: rows[].{bytes,time_us,...}");
  command->footer(
      "Columns: time is the median from one completion of the last rank to the next; algbw is size "
      "/ time,\n"
      "busbw algbw times the share that the busiest link carries, 2(P-1)/P for all_reduce, as in "
      "nccl-tests;\n"
      "wire/agent is what an agent sent per op; cpu that of ranks and agents; ratio is time / the "
      "model's for\n"
      "the links as measured. The first ops of a size try algorithms: --warm-up 10 lets the choice "
      "settle.");
  command->callback([flags, &exit_code] {
    const absl::StatusOr<int> code = RunBench(*flags);
    exit_code = code.ok() ? *code : Fail("bench", std::string(code.status().message()));
  });
}

}  // namespace maypole::cli
