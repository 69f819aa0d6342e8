// `maypole plan`: will the network be the bottleneck, before money is spent.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>

#include "cli/commands.h"
#include "cli/plan/plan_text.h"
#include "common/dtype.h"
#include "daemon/parse.h"

namespace maypole::cli {
namespace {

struct PlanFlags {
  std::string bytes;
  double params = 0;
  std::string dtype = "f32";
  std::uint32_t ranks = 0;
  std::uint32_t ranks_per_node = 1;
  std::string bandwidth;
  std::string latency = "5us";
  std::string compute;
  std::string bucket = "25MiB";
  std::string compression = "none";
  bool as_json = false;
};

absl::Status Named(const std::string& option, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", std::string(status.message())));
}

absl::StatusOr<double> Seconds(const std::string& option, const std::string& text) {
  const absl::StatusOr<Duration> parsed = daemon::ParseDuration(text);
  if (!parsed.ok()) {
    return Named(option, parsed.status());
  }
  return std::chrono::duration<double>(*parsed).count();
}

absl::StatusOr<std::uint64_t> GradientBytes(const PlanFlags& flags, DType dtype) {
  if (flags.bytes.empty() == (flags.params == 0)) {
    return absl::InvalidArgumentError(
        "give the gradient's size either as --bytes 1GiB or as --params 7e9 --dtype bf16");
  }
  if (flags.bytes.empty()) {
    if (!(flags.params >= 1 && flags.params <= 1e15)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--params is ", flags.params, "; it must be from 1 to 1e15"));
    }
    return static_cast<std::uint64_t>(flags.params) * SizeOf(dtype);
  }
  const auto bytes = daemon::ParseBytes(flags.bytes);
  return bytes.ok() ? *bytes : absl::StatusOr<std::uint64_t>(Named("--bytes", bytes.status()));
}

// Bytes on the wire per byte of gradient.
absl::StatusOr<double> WireRatio(const std::string& compression, DType dtype) {
  const std::pair<const char*, double> codecs[] = {
      {"f16", 2}, {"bf16", 2}, {"int8", 1}, {"int4", 0.5}};
  const auto size = static_cast<double>(SizeOf(dtype));
  if (compression == "none") {
    return 1.0;
  }
  for (const auto& [name, bytes] : codecs) {
    if (compression == name) {
      return bytes / size;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--compression is \"", compression, "\"; it must be none, f16, bf16, int8 or int4"));
}

absl::StatusOr<collective::PlanRequest> RequestOf(const PlanFlags& flags) {
  collective::PlanRequest request;
  const auto dtype = DTypeFromName(flags.dtype);
  if (!dtype) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--dtype is \"", flags.dtype, "\"; it must be f32, f64, f16, bf16, i8, u8, i32 or i64"));
  }
  const auto bytes = GradientBytes(flags, *dtype);
  const auto ratio = WireRatio(flags.compression, *dtype);
  const auto bandwidth = daemon::ParseBitRate(flags.bandwidth);
  const auto latency = Seconds("--latency", flags.latency);
  const auto bucket = daemon::ParseBytes(flags.bucket);
  for (const absl::Status& status : {bytes.status(), ratio.status(), latency.status()}) {
    if (!status.ok()) {
      return status;
    }
  }
  if (!bandwidth.ok()) {
    return Named("--bandwidth", bandwidth.status());
  }
  if (!bucket.ok()) {
    return Named("--bucket", bucket.status());
  }
  request.bytes = *bytes;
  request.ranks = flags.ranks;
  request.ranks_per_node = flags.ranks_per_node;
  request.link = {.latency_seconds = *latency,
                  .bytes_per_second = static_cast<double>(*bandwidth) / 8};
  request.bytes_on_wire = *ratio;
  request.bucket_bytes = *bucket;
  if (!flags.compute.empty()) {
    const auto compute = Seconds("--compute", flags.compute);
    if (!compute.ok()) {
      return compute.status();
    }
    request.compute_seconds = *compute;
  }
  if (const std::string problem = PlanProblem(request); !problem.empty()) {
    return absl::InvalidArgumentError(problem);
  }
  return request;
}

int RunPlan(const PlanFlags& flags) {
  const absl::StatusOr<collective::PlanRequest> request = RequestOf(flags);
  if (!request.ok()) {
    return Fail("plan", std::string(request.status().message()));
  }
  const collective::Plan plan = MakePlan(*request);
  std::fputs((flags.as_json ? PlanJson(plan) : PlanText(*request, plan)).c_str(), stdout);
  return 0;
}

}  // namespace

void AddPlanCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app.add_subcommand(
      "plan", "Predict what the all-reduce of a gradient costs, by the latency-bandwidth model");
  command->add_option("--bytes", flags->bytes, "Size of the gradient: 64MiB, 1GiB");
  command->add_option("--params", flags->params, "Or its parameters: 7e9");
  command->add_option("--dtype", flags->dtype, "Type of a parameter's gradient")
      ->capture_default_str();
  command->add_option("--ranks", flags->ranks, "Training processes")->required();
  command->add_option("--ranks-per-node", flags->ranks_per_node, "Of them on each node")
      ->capture_default_str();
  command->add_option("--bandwidth", flags->bandwidth, "Of a node's link, each way: 25Gbps")
      ->required();
  command->add_option("--latency", flags->latency, "Of a message: 5us")->capture_default_str();
  command->add_option(
      "--compute", flags->compute, "Forward and backward of a step: 120ms; adds the step's time");
  command->add_option("--bucket", flags->bucket, "Gradients are sent in buckets of this size")
      ->capture_default_str();
  command
      ->add_option("--compression", flags->compression, "On the wire: none, f16, bf16, int8, int4")
      ->capture_default_str();
  command->add_flag("--json", flags->as_json, "As JSON");
  command->callback([flags, &exit_code] { exit_code = RunPlan(*flags); });
}

}  // namespace maypole::cli
