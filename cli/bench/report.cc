#include "cli/bench/report.h"

#include <algorithm>
#include <cstddef>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "collective/cost.h"

namespace maypole::cli {
namespace {

using Json = nlohmann::ordered_json;

// Seconds from each completion of the last rank to the next, ascending.
std::vector<double> IntervalsOf(std::uint64_t iterations, std::span<const RankCell> cells) {
  std::vector<double> ends(iterations + 1);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    for (const RankCell& cell : cells) {
      ends[i] = std::max(ends[i], cell.ends[i]);
    }
  }
  std::vector<double> intervals(iterations);
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    intervals[i] = ends[i + 1] - ends[i];
  }
  std::sort(intervals.begin(), intervals.end());
  return intervals;
}

Json ToObject(const BenchRow& row) {
  return {{"collective", row.collective},
          {"bytes", row.bytes},
          {"count", row.count},
          {"type", row.type},
          {"op", row.op},
          {"algorithm", row.algorithm},
          {"nodes", row.nodes},
          {"ranks", row.ranks},
          {"time_us", row.time_us},
          {"algbw_bytes_per_s", row.algbw_bytes_per_s},
          {"busbw_bytes_per_s", row.busbw_bytes_per_s},
          {"wrong", row.wrong ? Json(*row.wrong) : Json(nullptr)},
          {"wire_bytes_per_agent", row.wire_bytes_per_agent},
          {"cpu_s_per_gb", row.cpu_s_per_gb},
          {"machine_cpu_s_per_gb", row.machine_cpu_s_per_gb},
          {"time_min_us", row.time_min_us},
          {"iterations", row.iterations},
          {"model_ratio", row.model_ratio ? Json(*row.model_ratio) : Json(nullptr)}};
}

}  // namespace

BenchRow MakeRow(const BenchPlan& plan,
                 std::uint64_t bytes,
                 std::uint64_t iterations,
                 std::span<const RankCell> cells) {
  BenchRow row;
  row.collective = Name(plan.collective);
  row.bytes = bytes;
  row.count = bytes / SizeOf(plan.dtype);
  row.type = Name(plan.dtype);
  row.op = Name(plan.reduction);
  row.algorithm =
      cells[0].algorithm[0] == '\0' ? std::string(Name(plan.algorithm)) : cells[0].algorithm.data();
  row.ranks = static_cast<std::uint32_t>(cells.size());
  row.iterations = iterations;
  double cpu_seconds = 0;
  std::uint64_t wrong = 0;
  for (const RankCell& cell : cells) {
    cpu_seconds += cell.cpu_seconds + cell.agent_cpu_seconds;
    wrong += cell.wrong;
    row.nodes += cell.is_first_of_node != 0 ? 1 : 0;
    row.wire_bytes_per_agent += cell.wire_bytes;
  }
  if (plan.check) {
    row.wrong = wrong;
  }
  const auto operations = static_cast<double>(iterations + 1);
  row.wire_bytes_per_agent /= operations * std::max(1U, row.nodes);
  const std::vector<double> intervals = IntervalsOf(iterations, cells);
  const double median = intervals[intervals.size() / 2];
  row.time_us = median * 1e6;
  row.time_min_us = intervals.front() * 1e6;
  if (bytes > 0 && median > 0) {
    row.algbw_bytes_per_s = static_cast<double>(bytes) / median;
    row.busbw_bytes_per_s =
        row.algbw_bytes_per_s * collective::BusFactor(plan.collective, row.ranks);
    const double gigabytes = static_cast<double>(bytes) * operations / 1e9;
    row.cpu_s_per_gb = cpu_seconds / gigabytes;
    row.machine_cpu_s_per_gb = cells[0].machine_cpu_seconds / gigabytes;
  }
  return row;
}

std::string ToLine(const BenchRow& row) {
  return ToObject(row).dump();
}

std::optional<BenchRow> FromLine(std::string_view line) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("collective")) {
    return std::nullopt;
  }
  BenchRow row;
  row.collective = object.value("collective", "");
  row.bytes = object.value("bytes", std::uint64_t{0});
  row.count = object.value("count", std::uint64_t{0});
  row.type = object.value("type", "");
  row.op = object.value("op", "");
  row.algorithm = object.value("algorithm", "");
  row.nodes = object.value("nodes", 0U);
  row.ranks = object.value("ranks", 0U);
  row.iterations = object.value("iterations", std::uint64_t{0});
  row.time_us = object.value("time_us", 0.0);
  row.time_min_us = object.value("time_min_us", 0.0);
  row.algbw_bytes_per_s = object.value("algbw_bytes_per_s", 0.0);
  row.busbw_bytes_per_s = object.value("busbw_bytes_per_s", 0.0);
  row.wire_bytes_per_agent = object.value("wire_bytes_per_agent", 0.0);
  row.cpu_s_per_gb = object.value("cpu_s_per_gb", 0.0);
  row.machine_cpu_s_per_gb = object.value("machine_cpu_s_per_gb", 0.0);
  if (object.contains("wrong") && object["wrong"].is_number()) {
    row.wrong = object["wrong"].get<std::uint64_t>();
  }
  if (object.contains("model_ratio") && object["model_ratio"].is_number()) {
    row.model_ratio = object["model_ratio"].get<double>();
  }
  return row;
}

std::string TableHeader() {
  return absl::StrFormat("%12s %12s %5s %8s %10s %12s %12s %8s %8s %8s %12s %8s %7s\n",
                         "size",
                         "count",
                         "type",
                         "redop",
                         "algorithm",
                         "time",
                         "min",
                         "algbw",
                         "busbw",
                         "#wrong",
                         "wire/agent",
                         "cpu",
                         "ratio") +
         absl::StrFormat("%12s %12s %5s %8s %10s %12s %12s %8s %8s %8s %12s %8s %7s\n",
                         "(B)",
                         "(elements)",
                         "",
                         "",
                         "",
                         "(us)",
                         "(us)",
                         "(GB/s)",
                         "(GB/s)",
                         "",
                         "(B)",
                         "(s/GB)",
                         "(model)");
}

std::string TableLine(const BenchRow& row) {
  return absl::StrFormat("%12u %12u %5s %8s %10s %12.1f %12.1f %8.3f %8.3f %8s %12.0f %8.2f %7s\n",
                         row.bytes,
                         row.count,
                         row.type,
                         row.op,
                         row.algorithm,
                         row.time_us,
                         row.time_min_us,
                         row.algbw_bytes_per_s / 1e9,
                         row.busbw_bytes_per_s / 1e9,
                         row.wrong ? absl::StrCat(*row.wrong) : "-",
                         row.wire_bytes_per_agent,
                         row.cpu_s_per_gb,
                         row.model_ratio ? absl::StrFormat("%.2f", *row.model_ratio) : "-");
}

std::string ToJson(const std::vector<BenchRow>& rows, const std::string& congestion_control) {
  Json list = Json::array();
  for (const BenchRow& row : rows) {
    list.push_back(ToObject(row));
  }
  return Json{{"rows", list}, {"congestion_control", congestion_control}}.dump(2) + "\n";
}

}  // namespace maypole::cli
