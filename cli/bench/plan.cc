#include "cli/bench/plan.h"

#include <algorithm>
#include <array>
#include <optional>

#include <CLI/CLI.hpp>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "cli/algorithm_flag.h"
#include "cli/bench/board.h"
#include "cli/sizes.h"
#include "collective/parts.h"

namespace maypole::cli {

namespace {

using collective::Collective;

constexpr std::array kMeasured = {Collective::kAllReduce,
                                  Collective::kReduceScatter,
                                  Collective::kAllGather,
                                  Collective::kBroadcast,
                                  Collective::kReduce,
                                  Collective::kAllToAll};

std::vector<std::string> NamesOfMeasured() {
  std::vector<std::string> names;
  for (const Collective collective : kMeasured) {
    names.emplace_back(Name(collective));
  }
  return names;
}

}  // namespace

void AddBenchPlanFlags(CLI::App& command, BenchPlanFlags& flags) {
  command.add_option("--collective", flags.collective, "What to measure; the root is rank 0")
      ->transform(CLI::IsMember(NamesOfMeasured(), CLI::ignore_underscore))
      ->capture_default_str();
  command.add_option("--sizes", flags.sizes, "Bytes per rank: 4KiB..256MiB, or 1MiB,25MiB")
      ->capture_default_str();
  command.add_option("--step", flags.step, "Factor between the sizes of a range")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  command.add_option("--dtype", flags.dtype, "f32 f64 f16 bf16 i8 u8 i32 i64")
      ->capture_default_str();
  command.add_option("--op", flags.reduction, "sum mean min max product")->capture_default_str();
  command.add_option("--algorithm", flags.algorithm, "One of " + AlgorithmChoices())
      ->capture_default_str();
  command.add_flag("--check", flags.plan.check, "Verify every element of one result per size");
  command.add_flag("--overwrite", flags.plan.overwrite, "Inputs need not survive a failed op");
  command.add_flag("--shared-result",
                   flags.plan.shared_result,
                   "Out of place: one copy of the result for all ranks of a node");
  command
      .add_option("--warm-up",
                  flags.plan.warm_up,
                  "Warm up for so many seconds per size, until the choice of algorithm has settled "
                  "(default: a few operations)")
      ->check(CLI::Range(0.0, 3600.0));
  command.add_option("--seconds", flags.plan.seconds, "Aim per size")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  command
      .add_option("--iterations",
                  flags.plan.iterations,
                  "Timed operations per size (default: what fits into --seconds, at least 10)")
      ->check(CLI::Range(std::uint32_t{1}, Board::kMostIterations));
}

PlanOrError ToPlan(const BenchPlanFlags& flags) {
  PlanOrError made;
  made.plan = flags.plan;
  const std::optional<DType> dtype = DTypeFromName(flags.dtype);
  const std::optional<Reduction> reduction = ReductionFromName(flags.reduction);
  const auto* const measured =
      std::find_if(kMeasured.begin(), kMeasured.end(), [&](Collective collective) {
        return flags.collective == Name(collective);
      });
  const absl::StatusOr<collective::Algorithm> algorithm = ParseAlgorithm(flags.algorithm);
  const absl::StatusOr<std::vector<std::uint64_t>> sizes = ParseByteList(flags.sizes, flags.step);
  if (measured == kMeasured.end()) {
    made.error = absl::StrCat("--collective: '",
                              flags.collective,
                              "' is none of ",
                              absl::StrJoin(NamesOfMeasured(), " "));
  } else if (!algorithm.ok()) {
    made.error = absl::StrCat("--algorithm: ", std::string(algorithm.status().message()));
  } else if (!IsAvailable(*measured, *algorithm)) {
    made.error = absl::StrCat(
        "--algorithm: ", flags.collective, " has no algorithm '", flags.algorithm, "'");
  } else if (flags.plan.shared_result && !EverybodyGetsAll(*measured)) {
    made.error = absl::StrCat("--shared-result: not for ", flags.collective);
  } else if (!dtype) {
    made.error =
        absl::StrCat("--dtype: '", flags.dtype, "' is none of f32 f64 f16 bf16 i8 u8 i32 i64");
  } else if (!reduction) {
    made.error = absl::StrCat("--op: '", flags.reduction, "' is none of sum mean min max product");
  } else if (!sizes.ok()) {
    made.error = absl::StrCat("--sizes: ", std::string(sizes.status().message()));
  } else {
    made.plan.collective = *measured;
    made.plan.dtype = *dtype;
    made.plan.reduction = *reduction;
    made.plan.algorithm = *algorithm;
    made.plan.sizes = *sizes;
    for (std::uint64_t& bytes : made.plan.sizes) {
      bytes -= bytes % SizeOf(*dtype);
    }
  }
  return made;
}

std::vector<std::string> ToArguments(const BenchPlan& plan) {
  std::vector<std::string> arguments = {"--collective",
                                        std::string(Name(plan.collective)),
                                        "--sizes",
                                        absl::StrJoin(plan.sizes, ","),
                                        "--dtype",
                                        std::string(Name(plan.dtype)),
                                        "--op",
                                        std::string(Name(plan.reduction)),
                                        "--algorithm",
                                        std::string(Name(plan.algorithm)),
                                        "--seconds",
                                        absl::StrCat(plan.seconds),
                                        "--warm-up",
                                        absl::StrCat(plan.warm_up)};
  if (plan.iterations > 0) {
    arguments.insert(arguments.end(), {"--iterations", absl::StrCat(plan.iterations)});
  }
  if (plan.check) {
    arguments.push_back("--check");
  }
  if (plan.overwrite) {
    arguments.push_back("--overwrite");
  }
  if (plan.shared_result) {
    arguments.push_back("--shared-result");
  }
  return arguments;
}

}  // namespace maypole::cli
