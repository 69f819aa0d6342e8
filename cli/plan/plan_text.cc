#include "cli/plan/plan_text.h"

#include <algorithm>
#include <cstdint>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "cli/svg_plot.h"
#include "cli/text_table.h"
#include "daemon/parse.h"

namespace maypole::cli {
namespace {

std::string Text(std::string_view view) {
  return std::string(view);
}

std::string Gigabits(double bytes_per_second) {
  return absl::StrFormat("%.4g Gbit/s", bytes_per_second * 8 / 1e9);
}

std::string Gigabytes(double bytes) {
  return bytes >= 1e7 ? absl::StrFormat("%.3f GB", bytes / 1e9)
                      : absl::StrFormat("%.1f kB", bytes / 1e3);
}

std::string HeadText(const collective::PlanRequest& request) {
  const collective::LinkModel& link = request.link;
  std::string text = absl::StrFormat("%s over %s on %s; links %s, latency %.3g us",
                                     Gigabytes(static_cast<double>(request.bytes)),
                                     Counted(request.ranks, "rank"),
                                     Counted(request.ranks / request.ranks_per_node, "node"),
                                     Gigabits(link.bytes_per_second),
                                     link.latency_seconds * 1e6);
  if (link.message_seconds > 0) {
    absl::StrAppendFormat(&text, ", %.3g us a message", link.message_seconds * 1e6);
  }
  if (link.rails > 1) {
    absl::StrAppendFormat(&text, ", %d rails", link.rails);
  }
  if (link.uplink.members > 0) {
    absl::StrAppendFormat(&text,
                          "; racks of %s behind %s",
                          Counted(link.uplink.members, "node"),
                          Gigabits(link.uplink.bytes_per_second));
  }
  if (request.inner) {
    absl::StrAppendFormat(&text, "; inside a node %s", Gigabits(request.inner->bytes_per_second));
  }
  if (request.bytes_on_wire != 1) {
    absl::StrAppendFormat(&text, "; %.3g bytes on the wire per byte", request.bytes_on_wire);
  }
  return text + "\n\n";
}

// The algorithm of a bucket need not be that of the whole gradient.
std::string BucketsText(const collective::PlanRequest& request, collective::Algorithm algorithm) {
  const std::string by = absl::StrCat(
      "by ",
      Text(Name(algorithm)),
      request.algorithm == collective::Algorithm::kAuto ? " (the fastest at that size)" : "");
  return request.bytes <= request.bucket_bytes
             ? absl::StrCat("in one bucket, ", by)
             : absl::StrCat(
                   "in buckets of ", daemon::FormatBytes(request.bucket_bytes), ", each ", by);
}

std::string StepText(const collective::PlanRequest& request, const collective::PlannedStep& step) {
  return absl::StrCat("\nA step: compute ",
                      TimeCell(step.compute_seconds),
                      "; communication ",
                      BucketsText(request, step.algorithm),
                      ": ",
                      TimeCell(step.comm_seconds),
                      "; one after the other ",
                      TimeCell(step.serial_seconds),
                      ", overlapped by buckets ",
                      TimeCell(step.overlapped_seconds),
                      " (training waits ",
                      TimeCell(step.exposed_seconds),
                      ").\n");
}

nlohmann::json JsonOf(const collective::Plan& plan) {
  nlohmann::json json;
  json["algorithms"] = nlohmann::json::array();
  for (const collective::PlannedAlgorithm& row : plan.algorithms) {
    json["algorithms"].push_back({{"name", Text(Name(row.algorithm))},
                                  {"rounds", row.cost.rounds},
                                  {"bytes_per_rank", row.cost.bytes_sent},
                                  {"time_us", row.cost.seconds * 1e6},
                                  {"effective_bandwidth_bytes_per_s", row.effective_bandwidth}});
    if (row.simulated_seconds) {
      json["algorithms"].back()["simulated_us"] = *row.simulated_seconds * 1e6;
    }
  }
  json["recommended"] = Text(Name(plan.recommended));
  json["reason"] = plan.reason;
  json["bottleneck"] = plan.bottleneck;
  if (plan.step) {
    json["step"] = {{"algorithm", Text(Name(plan.step->algorithm))},
                    {"compute_us", plan.step->compute_seconds * 1e6},
                    {"comm_us", plan.step->comm_seconds * 1e6},
                    {"serial_us", plan.step->serial_seconds * 1e6},
                    {"overlapped_us", plan.step->overlapped_seconds * 1e6},
                    {"exposed_us", plan.step->exposed_seconds * 1e6}};
  }
  json["advice"] = nlohmann::json::array();
  for (const collective::Advice& advice : plan.advice) {
    json["advice"].push_back({{"what", advice.what}, {"gain_us", advice.gain_seconds * 1e6}});
  }
  return json;
}

double TimeIn(const collective::Plan& plan, collective::Algorithm algorithm) {
  for (const collective::PlannedAlgorithm& row : plan.algorithms) {
    if (row.algorithm == algorithm) {
      return row.cost.seconds;
    }
  }
  return 0;
}

std::string GigabytesPerSecond(double bytes_per_second) {
  return absl::StrFormat("%.2f GB/s", bytes_per_second / 1e9);
}

// As nccl-tests and `maypole bench` have it.
double Busbw(const collective::PlanRequest& request, double seconds) {
  return seconds == 0 ? 0
                      : static_cast<double>(request.bytes) / seconds *
                            BusFactor(collective::Collective::kAllReduce, request.ranks);
}

// What the table does not say by itself.
std::string NotesText(const collective::PlanRequest& request, const collective::Plan& plan) {
  std::string text = "\nnaive: only there to be compared with.\n";
  const bool left_out = std::any_of(plan.algorithms.begin(),
                                    plan.algorithms.end(),
                                    [](const auto& row) { return !row.simulated_seconds; });
  if (request.simulate && request.link.slowest > 1) {
    absl::StrAppend(&text,
                    "simulated: the slow node is the first, which trees have as a leaf; the time "
                    "beside it is for a slow node anywhere.\n");
  }
  if (request.simulate && left_out) {
    absl::StrAppend(&text, "-: not simulated, as the schedules have more than 5 million steps.\n");
  }
  return text;
}

std::string XText(const std::string& option, double x) {
  if (option == "bytes") {
    return daemon::FormatBytes(static_cast<std::uint64_t>(x));
  }
  return option == "ranks" ? absl::StrFormat("%.0f", x) : absl::StrFormat("%.3g", x / 1e9);
}

}  // namespace

std::string PlanText(const collective::PlanRequest& request, const collective::Plan& plan) {
  std::string text = HeadText(request);
  std::vector<std::string> header = {
      "algorithm", "rounds", "sent per node", "sent + received", "time"};
  if (request.simulate) {
    header.emplace_back("simulated");
  }
  header.insert(header.end(), {"busbw", "2N/T"});
  TextTable table(std::move(header));
  for (const collective::PlannedAlgorithm& planned : plan.algorithms) {
    const collective::Cost& cost = planned.cost;
    std::vector<std::string> row = {
        Text(Name(planned.algorithm)),
        absl::StrCat(cost.rounds),
        Gigabytes(static_cast<double>(cost.bytes_sent)),
        Gigabytes(static_cast<double>(cost.bytes_sent + cost.bytes_received)),
        TimeCell(cost.seconds)};
    if (request.simulate) {
      row.push_back(planned.simulated_seconds ? TimeCell(*planned.simulated_seconds) : "-");
    }
    row.push_back(GigabytesPerSecond(Busbw(request, cost.seconds)));
    row.push_back(GigabytesPerSecond(planned.effective_bandwidth));
    table.AddRow(std::move(row));
  }
  absl::StrAppend(&text,
                  table.ToString(),
                  NotesText(request, plan),
                  "\nRecommended: ",
                  Text(Name(plan.recommended)),
                  " (",
                  plan.reason,
                  ").\n");
  if (plan.step) {
    absl::StrAppend(&text, StepText(request, *plan.step));
  }
  absl::StrAppend(&text, "\nBottleneck: ", plan.bottleneck, ".");
  const bool has_network = request.ranks > request.ranks_per_node || request.inner;
  if (!plan.step && has_network) {
    absl::StrAppend(&text, " Give --compute 2s to see whether training waits for it.");
  }
  absl::StrAppend(&text, "\n");
  if (!plan.advice.empty()) {
    absl::StrAppend(&text, "\nWhat would help:\n");
    for (const collective::Advice& advice : plan.advice) {
      absl::StrAppend(&text, "  ", advice.what, ": ", TimeCell(advice.gain_seconds), " less\n");
    }
  }
  return text;
}

std::string PlanJson(const collective::Plan& plan) {
  return JsonOf(plan).dump(2) + "\n";
}

std::string SweepText(const Sweep& sweep) {
  // Racks may begin to count on the way, so the last request compares the most algorithms.
  const std::vector<collective::Algorithm> algorithms =
      PlannedAlgorithms(sweep.points.back().request);
  std::vector<std::string> header = {sweep.option};
  for (const collective::Algorithm algorithm : algorithms) {
    header.push_back(Text(Name(algorithm)));
  }
  header.insert(header.end(), {"recommended", "2N/T"});
  const bool has_step = sweep.points.front().request.compute_seconds.has_value();
  if (has_step) {
    header.insert(header.end(), {"step", "training waits"});
  }
  TextTable table(std::move(header));
  for (const SweepPoint& point : sweep.points) {
    const collective::Plan plan = MakePlan(point.request);
    std::vector<std::string> row = {point.value};
    for (const collective::Algorithm algorithm : algorithms) {
      row.push_back(TimeCell(TimeIn(plan, algorithm)));
    }
    row.push_back(Text(Name(plan.recommended)));
    row.push_back(Gigabits(
        collective::EffectiveBandwidth(point.request.bytes, TimeIn(plan, plan.recommended))));
    if (has_step) {
      row.push_back(TimeCell(plan.step->overlapped_seconds));
      row.push_back(TimeCell(plan.step->exposed_seconds));
    }
    table.AddRow(std::move(row));
  }
  return table.ToString();
}

std::string SweepJson(const Sweep& sweep) {
  nlohmann::json json = {{"sweep", sweep.option}, {"points", nlohmann::json::array()}};
  for (const SweepPoint& point : sweep.points) {
    nlohmann::json plan = JsonOf(MakePlan(point.request));
    plan["value"] = point.value;
    plan["x"] = point.x;
    json["points"].push_back(std::move(plan));
  }
  return json.dump(2) + "\n";
}

std::string SweepSvg(const Sweep& sweep) {
  Plot plot = {.title = absl::StrCat("All-reduce time by ", sweep.option),
               .x_label = sweep.option == "bandwidth" ? "bandwidth, Gbit/s" : sweep.option,
               .y_label = "time",
               .x_text = [&](double x) { return XText(sweep.option, x); },
               .y_text = TickText,
               .lines = {}};
  if (sweep.option == "bandwidth") {
    plot.x_factors = {2, 2.5, 2};
  }
  PlotLine recommended = {.name = "recommended", .points = {}, .strong = true};
  PlotLine waits = {.name = "training waits", .points = {}, .strong = true};
  std::vector<PlotLine> lines;
  for (const collective::Algorithm algorithm : PlannedAlgorithms(sweep.points.back().request)) {
    if (algorithm == collective::Algorithm::kNaive) {
      continue;  // its times would press all others together
    }
    lines.push_back({.name = Text(Name(algorithm)), .points = {}});
    for (const SweepPoint& point : sweep.points) {
      lines.back().points.emplace_back(point.x, TimeIn(MakePlan(point.request), algorithm));
    }
  }
  for (const SweepPoint& point : sweep.points) {
    const collective::Plan plan = MakePlan(point.request);
    recommended.points.emplace_back(point.x, TimeIn(plan, plan.recommended));
    if (plan.step) {
      waits.points.emplace_back(point.x, plan.step->exposed_seconds);
    }
  }
  plot.lines.push_back(std::move(recommended));
  plot.lines.push_back(std::move(waits));
  plot.lines.insert(plot.lines.end(), lines.begin(), lines.end());
  return SvgText(plot);
}

}  // namespace maypole::cli
