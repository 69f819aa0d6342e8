// `maypole bench-rank` (hidden): one rank of `maypole bench`. Measures every size in turn, in place
// on session memory; rank 0 prints one line per size for the driver.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include "cli/bench/board.h"
#include "cli/bench/model_ratio.h"
#include "cli/bench/plan.h"
#include "cli/bench/report.h"
#include "cli/bench/values.h"
#include "cli/commands.h"
#include "collective/parts.h"
#include "maypole/maypole.h"

namespace maypole::cli {
namespace {

using collective::Collective;

constexpr std::uint32_t kFewestIterations = 10;
constexpr std::uint32_t kWarmUps = 3;
constexpr std::uint32_t kMostWarmUps = 200;
constexpr double kTimeoutSeconds = 120;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Busy time of all cores since boot, interrupts included.
double MachineCpuSeconds() {
  std::ifstream file("/proc/stat");
  std::string label;
  std::array<double, 7> ticks{};  // user nice system idle iowait irq softirq
  file >> label;
  for (double& tick : ticks) {
    file >> tick;
  }
  const double busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
  return busy / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Ends the process: a rank that cannot go on has nothing to tidy up that its end does not.
void Require(maypole_status status, const char* what) {
  if (status != MAYPOLE_OK) {
    std::fprintf(stderr, "%s: %s: %s\n", what, maypole_status_name(status), maypole_last_error());
    std::fflush(nullptr);
    std::_Exit(1);
  }
}

class BenchRank {
 public:
  BenchRank(const BenchPlan& plan, maypole_session* session, Board board, std::string coordinator)
      : plan_(plan),
        session_(session),
        board_(std::move(board)),
        model_ratio_(std::move(coordinator)),
        rank_(static_cast<std::uint32_t>(maypole_rank(session))),
        cell_(board_.cells()[rank_]),
        shape_{
            plan.dtype, plan.reduction, static_cast<std::uint32_t>(maypole_world_size(session))} {
    options_.dtype = static_cast<maypole_dtype>(plan.dtype);
    options_.reduction = static_cast<maypole_reduction>(plan.reduction);
    options_.timeout = kTimeoutSeconds;
    options_.algorithm = static_cast<maypole_algorithm>(plan.algorithm);
    options_.shared_result = plan.shared_result ? 1 : 0;
    options_.overwrite = plan.overwrite ? 1 : 0;
    cell_.is_first_of_node = maypole_local_rank(session) == 0 ? 1 : 0;
  }

  void Run() {
    const std::uint64_t largest = *std::max_element(plan_.sizes.begin(), plan_.sizes.end());
    void* memory = Allocate(largest);
    if (plan_.collective == Collective::kAllToAll) {
      output_ = Allocate(largest);
    }
    const std::uint64_t block =
        HasBlocks(plan_.collective) ? shape_.ranks * SizeOf(plan_.dtype) : 1;
    for (const std::uint64_t bytes : plan_.sizes) {
      Measure({static_cast<std::byte*>(memory), bytes - bytes % block});
    }
    Require(maypole_free(session_, memory), "maypole_free");
    Require(maypole_free(session_, output_), "maypole_free");
  }

 private:
  void* Allocate(std::uint64_t bytes);
  void Measure(std::span<std::byte> memory);
  std::uint64_t CountWrongAfter(const std::byte* result, std::size_t bytes) const;
  void Check(std::span<std::byte> memory);
  void AgreeOnCounts(std::span<std::byte> memory);
  void Barrier();
  maypole_op* Submit(std::span<std::byte> memory);
  void RunOnce(std::span<std::byte> memory);
  maypole_agent_stats AgentStats();

  const BenchPlan& plan_;
  maypole_session* session_;
  Board board_;
  ModelRatio model_ratio_;  // of rank 0
  std::uint32_t rank_;
  RankCell& cell_;
  ValueShape shape_;
  maypole_op_options options_{};
  void* output_ = nullptr;  // of an all-to-all
};

void BenchRank::Barrier() {
  maypole_op* op = nullptr;
  Require(maypole_barrier(session_, nullptr, kTimeoutSeconds, &op), "maypole_barrier");
  Require(maypole_wait(op), "barrier");
  maypole_op_free(op);
}

void* BenchRank::Allocate(std::uint64_t bytes) {
  void* memory = nullptr;
  Require(maypole_alloc(session_, std::max<std::uint64_t>(bytes, 64), &memory), "maypole_alloc");
  return memory;
}

maypole_op* BenchRank::Submit(std::span<std::byte> memory) {
  maypole_op* op = nullptr;
  void* const data = memory.data();
  const std::uint64_t count = memory.size() / SizeOf(plan_.dtype);
  maypole_status status = MAYPOLE_INTERNAL;
  switch (plan_.collective) {
    case Collective::kReduceScatter:
      status = maypole_reduce_scatter(session_, data, count, nullptr, &options_, &op);
      break;
    case Collective::kAllGather:
      status = maypole_all_gather(session_, data, count, nullptr, &options_, &op);
      break;
    case Collective::kBroadcast:
      status = maypole_broadcast(session_, data, count, 0, &options_, &op);
      break;
    case Collective::kReduce:
      status = maypole_reduce(session_, data, count, 0, &options_, &op);
      break;
    case Collective::kAllToAll:
      status = maypole_all_to_all(session_, data, output_, count, &options_, &op);
      break;
    default:
      status = maypole_all_reduce(session_, data, count, &options_, &op);
  }
  Require(status, Name(plan_.collective).data());
  Require(maypole_wait(op), Name(plan_.collective).data());
  return op;
}

void BenchRank::RunOnce(std::span<std::byte> memory) {
  maypole_op_free(Submit(memory));
}

maypole_agent_stats BenchRank::AgentStats() {
  maypole_agent_stats stats{};
  if (cell_.is_first_of_node != 0) {
    Require(maypole_get_agent_stats(session_, &stats), "maypole_get_agent_stats");
  }
  return stats;
}

void BenchRank::Check(std::span<std::byte> memory) {
  FillInput(shape_, rank_, memory);
  maypole_op* op = Submit(memory);
  const void* shared = maypole_op_result(op);
  const void* result = shared != nullptr ? shared : output_ != nullptr ? output_ : memory.data();
  cell_.wrong = CountWrongAfter(static_cast<const std::byte*>(result), memory.size());
  maypole_op_free(op);
}

// In what this rank gets. Blocks are equal.
std::uint64_t BenchRank::CountWrongAfter(const std::byte* result, std::size_t bytes) const {
  const std::size_t block = bytes / shape_.ranks;
  const std::size_t elements = block / SizeOf(plan_.dtype);
  std::uint64_t wrong = 0;
  switch (plan_.collective) {
    case Collective::kReduceScatter:
      return CountWrong(shape_, {result + rank_ * block, block}, rank_ * elements);
    case Collective::kAllGather:
      for (std::uint32_t from = 0; from < shape_.ranks; ++from) {
        wrong += CountUnlike(shape_, from, {result + from * block, block}, from * elements);
      }
      return wrong;
    case Collective::kAllToAll:
      for (std::uint32_t from = 0; from < shape_.ranks; ++from) {
        wrong += CountUnlike(shape_, from, {result + from * block, block}, rank_ * elements);
      }
      return wrong;
    case Collective::kBroadcast:
      return CountUnlike(shape_, 0, {result, bytes}, 0);
    case Collective::kReduce:
      return rank_ == 0 ? CountWrong(shape_, {result, bytes}) : 0;
    default:
      return CountWrong(shape_, {result, bytes});
  }
}

void BenchRank::AgreeOnCounts(std::span<std::byte> memory) {
  RunOnce(memory);
  const double start = Now();
  RunOnce(memory);
  RunOnce(memory);
  if (rank_ == 0) {
    const double each = std::max((Now() - start) / 2, 1e-7);
    const auto that_fit = [&](double seconds, double fewest) {
      return static_cast<std::uint64_t>(
          std::clamp(seconds / each, fewest, double{Board::kMostIterations}));
    };
    board_.iterations() =
        plan_.iterations > 0 ? plan_.iterations : that_fit(plan_.seconds, kFewestIterations);
    board_.warm_ups() =
        std::max(std::min<std::uint64_t>(kWarmUps + board_.iterations() / 10, kMostWarmUps),
                 that_fit(plan_.warm_up, 0));
  }
  Barrier();
}

void BenchRank::Measure(std::span<std::byte> memory) {
  if (plan_.check) {
    Check(memory);
  }
  // Repeated sums in place then stay what they are.
  std::fill(memory.begin(), memory.end(), std::byte{0});
  Barrier();
  AgreeOnCounts(memory);
  const std::uint64_t iterations = board_.iterations();
  for (std::uint64_t i = 0, count = board_.warm_ups(); i < count; ++i) {
    RunOnce(memory);
  }
  Barrier();
  const maypole_agent_stats before = AgentStats();
  const double machine_before = MachineCpuSeconds();
  Barrier();
  const double cpu_before = CpuSeconds();
  for (std::uint64_t i = 0; i <= iterations; ++i) {
    RunOnce(memory);
    cell_.ends[i] = Now();
  }
  cell_.cpu_seconds = CpuSeconds() - cpu_before;
  cell_.machine_cpu_seconds = MachineCpuSeconds() - machine_before;
  const maypole_agent_stats after = AgentStats();
  cell_.agent_cpu_seconds = static_cast<double>(after.cpu_ns - before.cpu_ns) * 1e-9;
  cell_.wire_bytes = static_cast<double>(after.wire_sent_bytes - before.wire_sent_bytes);
  std::copy(std::begin(after.algorithm), std::end(after.algorithm), cell_.algorithm.begin());
  Barrier();
  if (rank_ == 0) {
    BenchRow row = MakeRow(plan_, memory.size(), iterations, board_.cells());
    row.model_ratio = model_ratio_.Of(row, plan_.collective);
    std::printf("%s\n", ToLine(row).c_str());
    std::fflush(stdout);
  }
  Barrier();
}

int RunBenchRank(const BenchPlanFlags& flags, int board_fd) {
  const PlanOrError made = ToPlan(flags);
  maypole_session* session = nullptr;
  Require(maypole_connect(nullptr, &session), "maypole_connect");
  Board board = Board::Map(board_fd, static_cast<std::uint32_t>(maypole_world_size(session)));
  if (!made.error.empty() || !board.valid()) {
    return Fail("bench-rank", made.error.empty() ? "cannot map the board" : made.error);
  }
  // In a namespace only a rank reaches the coordinator.
  const char* coordinator = std::getenv("MAYPOLE_COORDINATOR");
  BenchRank(made.plan, session, std::move(board), coordinator != nullptr ? coordinator : "").Run();
  maypole_close(session);
  return 0;
}

}  // namespace

void AddBenchRankCommand(CLI::App& app, int& exit_code) {
  struct RankFlags {
    BenchPlanFlags plan;
    int board_fd = -1;
  };

  const auto flags = std::make_shared<RankFlags>();
  CLI::App* command = app.add_subcommand("bench-rank", "One rank of maypole bench");
  command->group("");  // hidden
  AddBenchPlanFlags(*command, flags->plan);
  command->add_option("--board-fd", flags->board_fd)->required();
  command->callback(
      [flags, &exit_code] { exit_code = RunBenchRank(flags->plan, flags->board_fd); });
}

}  // namespace maypole::cli
