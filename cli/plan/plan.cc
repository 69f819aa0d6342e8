// `maypole plan`: will the network be the bottleneck, before money is spent.
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>

#include "cli/calibrate.h"
#include "cli/commands.h"
#include "cli/coordinator_client.h"
#include "cli/plan/plan_flags.h"
#include "cli/plan/plan_text.h"
#include "cli/plan/sweep.h"

namespace maypole::cli {
namespace {

struct Command {
  PlanFlags plan;
  bool as_json = false;
  std::string svg;
  std::string calibrate;
};

// Fills in what was measured, and says so.
absl::Status Calibrate(Command& command) {
  const auto status = FetchStatus({.option = "--calibrate", .address = command.calibrate});
  if (!status.ok()) {
    return status.status();
  }
  const absl::StatusOr<Calibration> calibration = CalibrationFrom(*status);
  if (!calibration.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--calibrate ", command.calibrate, ": ", std::string(calibration.status().message())));
  }
  command.plan.measured = calibration->link;
  if (!command.as_json) {
    std::printf("%s: %s\n", command.calibrate.c_str(), calibration->summary.c_str());
  }
  return absl::OkStatus();
}

int RunSweep(const Command& command) {
  const absl::StatusOr<Sweep> sweep = SweepOf(command.plan);
  if (!sweep.ok()) {
    return Fail("plan", std::string(sweep.status().message()));
  }
  if (!command.svg.empty() && !(std::ofstream(command.svg) << SweepSvg(*sweep)).flush()) {
    return Fail("plan", absl::StrCat("--svg: cannot write ", command.svg));
  }
  std::fputs((command.as_json ? SweepJson(*sweep) : SweepText(*sweep)).c_str(), stdout);
  return 0;
}

int RunPlan(Command& command) {
  if (!command.calibrate.empty()) {
    if (const absl::Status status = Calibrate(command); !status.ok()) {
      return Fail("plan", std::string(status.message()));
    }
  }
  if (!command.plan.sweep.empty()) {
    return RunSweep(command);
  }
  if (!command.svg.empty()) {
    return Fail("plan", "--svg draws a sweep: add one, such as --sweep ranks=8..1024");
  }
  const absl::StatusOr<collective::PlanRequest> request = RequestOf(command.plan);
  if (!request.ok()) {
    return Fail("plan", std::string(request.status().message()));
  }
  const collective::Plan plan = MakePlan(*request);
  std::fputs((command.as_json ? PlanJson(plan) : PlanText(*request, plan)).c_str(), stdout);
  return 0;
}

void AddWorkOptions(CLI::App& command, PlanFlags& flags) {
  command.add_option("--bytes", flags.bytes, "Size of the gradient: 64MiB, 1GiB");
  command.add_option("--params", flags.params, "Or its parameters: 7e9, 7B, 350M");
  command.add_option("--dtype", flags.dtype, "Type of a parameter's gradient")
      ->capture_default_str();
  command.add_option("--ranks", flags.ranks, "Training processes");
  command.add_option("--ranks-per-node", flags.ranks_per_node, "Of them on each node")
      ->capture_default_str();
  command.add_option(
      "--compute", flags.compute, "Forward and backward of a step: 120ms; adds the step's time");
  command.add_option("--bucket", flags.bucket, "Gradients are sent in buckets of this size")
      ->capture_default_str();
  command
      .add_option("--compression",
                  flags.compression,
                  "Between nodes: none, f16, bf16, int8, int4, topk:RATIO")
      ->capture_default_str();
  command.add_option("--algorithm", flags.algorithm, "The one to use; auto: the fastest")
      ->capture_default_str();
  command.add_option("--slice", flags.slice, "Largest message")->capture_default_str();
}

void AddNetworkOptions(CLI::App& command, PlanFlags& flags) {
  command.add_option("--bandwidth", flags.bandwidth, "Of a node's link, each way: 25Gbps");
  command.add_option("--latency", flags.latency, "Of a message: 10us; without it 5us");
  command.add_option(
      "--message", flags.message, "Cost of a message whatever its size: 1us; without it 0");
  command.add_option("--rails", flags.rails, "Links of a node, side by side")
      ->capture_default_str();
  command.add_option("--slowest", flags.slowest, "Times that the slowest node takes as long")
      ->capture_default_str();
  command.add_option("--inner-bandwidth",
                     flags.inner_bandwidth,
                     "Of a rank inside its node, each way; without it a node's sum is free");
  command.add_option("--inner-latency", flags.inner_latency, "Inside a node")
      ->capture_default_str();
  command.add_option("--nodes-per-rack", flags.nodes_per_rack, "Nodes that share an uplink");
  command.add_option("--uplink", flags.uplink, "Rate of a rack's uplink, each way: 100Gbps");
  command.add_option("--uplink-latency", flags.uplink_latency, "On top of --latency")
      ->capture_default_str();
}

}  // namespace

void AddPlanCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<Command>();
  CLI::App* command = app.add_subcommand(
      "plan", "Predict what the all-reduce of a gradient costs, by the latency-bandwidth model");
  AddWorkOptions(*command, flags->plan);
  AddNetworkOptions(*command, flags->plan);
  command->add_option("--calibrate",
                      flags->calibrate,
                      "HOST:PORT of a coordinator: bandwidth, latency and message are the medians "
                      "of the links that its agents measured, where they are not given");
  command->add_option("--sweep",
                      flags->plan.sweep,
                      "Many plans in one table: ranks=8..1024 (doubling), bytes=1MiB,25MiB, or "
                      "bandwidth=10Gbps..400Gbps");
  command->add_option("--svg", flags->svg, "Also draw the sweep into this file");
  command->add_flag(
      "--simulate", flags->plan.simulate, "Also run the real schedules on a simulated network");
  command->add_flag("--json", flags->as_json, "As JSON");
  command->callback([flags, &exit_code] { exit_code = RunPlan(*flags); });
}

}  // namespace maypole::cli
