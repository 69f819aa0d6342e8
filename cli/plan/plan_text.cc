#include "cli/plan/plan_text.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "cli/text_table.h"

namespace maypole::cli {
namespace {

std::string Text(std::string_view view) {
  return std::string(view);
}

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.2f ms", seconds * 1e3);
}

std::string Gigabytes(double bytes) {
  return absl::StrFormat("%.3f GB", bytes / 1e9);
}

std::string StepText(const collective::PlannedStep& step) {
  return absl::StrCat("\nA step: compute ",
                      Milliseconds(step.compute_seconds),
                      ", communication ",
                      Milliseconds(step.comm_seconds),
                      "; one after the other ",
                      Milliseconds(step.serial_seconds),
                      ", overlapped by buckets ",
                      Milliseconds(step.overlapped_seconds),
                      " (training waits ",
                      Milliseconds(step.exposed_seconds),
                      ").\n");
}

}  // namespace

std::string PlanText(const collective::PlanRequest& request, const collective::Plan& plan) {
  std::string text =
      absl::StrFormat("%s over %d ranks on %d nodes; links %.3g Gbit/s, latency %.3g us\n\n",
                      Gigabytes(static_cast<double>(request.bytes)),
                      request.ranks,
                      request.ranks / request.ranks_per_node,
                      request.link.bytes_per_second * 8 / 1e9,
                      request.link.latency_seconds * 1e6);
  TextTable table({"algorithm", "rounds", "sent per node", "time", "effective bandwidth 2N/T"});
  for (const collective::PlannedAlgorithm& row : plan.algorithms) {
    table.AddRow({Text(Name(row.algorithm)),
                  absl::StrCat(row.cost.rounds),
                  Gigabytes(static_cast<double>(row.cost.bytes_sent)),
                  Milliseconds(row.cost.seconds),
                  absl::StrFormat("%.2f GB/s", row.effective_bandwidth / 1e9)});
  }
  absl::StrAppend(&text,
                  table.ToString(),
                  "\nRecommended: ",
                  Text(Name(plan.recommended)),
                  ". ",
                  plan.reason,
                  "\n");
  if (plan.step) {
    absl::StrAppend(&text, StepText(*plan.step));
  }
  if (!plan.advice.empty()) {
    absl::StrAppend(&text, "\nWhat would help:\n");
    for (const collective::Advice& advice : plan.advice) {
      absl::StrAppend(&text, "  ", advice.what, ": ", Milliseconds(advice.gain_seconds), " less\n");
    }
  }
  return text;
}

std::string PlanJson(const collective::Plan& plan) {
  nlohmann::json json;
  json["algorithms"] = nlohmann::json::array();
  for (const collective::PlannedAlgorithm& row : plan.algorithms) {
    json["algorithms"].push_back({{"name", Text(Name(row.algorithm))},
                                  {"rounds", row.cost.rounds},
                                  {"bytes_per_rank", row.cost.bytes_sent},
                                  {"time_us", row.cost.seconds * 1e6},
                                  {"effective_bandwidth_bytes_per_s", row.effective_bandwidth}});
  }
  json["recommended"] = Text(Name(plan.recommended));
  json["reason"] = plan.reason;
  if (plan.step) {
    json["step"] = {{"compute_us", plan.step->compute_seconds * 1e6},
                    {"comm_us", plan.step->comm_seconds * 1e6},
                    {"serial_us", plan.step->serial_seconds * 1e6},
                    {"overlapped_us", plan.step->overlapped_seconds * 1e6},
                    {"exposed_us", plan.step->exposed_seconds * 1e6}};
  }
  json["advice"] = nlohmann::json::array();
  for (const collective::Advice& advice : plan.advice) {
    json["advice"].push_back({{"what", advice.what}, {"gain_us", advice.gain_seconds * 1e6}});
  }
  return json.dump(2) + "\n";
}

}  // namespace maypole::cli
