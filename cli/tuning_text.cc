#include "cli/tuning_text.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <sstream>
#include <vector>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include "cli/text_table.h"
#include "daemon/parse.h"
#include "proto/coordinator.pb.h"

namespace maypole::cli {
namespace {

constexpr int kLinksShown = 64;

std::string Size(std::uint64_t bytes) {
  return bytes == std::numeric_limits<std::uint64_t>::max() ? "-" : daemon::FormatBytes(bytes);
}

// Rows from `first` up to and without `last`, which all choose alike.
struct Run {
  int first = 0;
  int last = 0;
};

bool ChoosesAlike(const v1::TuningRow& a, const v1::TuningRow& b) {
  return a.collective() == b.collective() && a.algorithm() == b.algorithm() &&
         a.slice_bytes() == b.slice_bytes() && a.is_rule() == b.is_rule() &&
         a.bytes_end() == b.bytes_begin();
}

std::vector<Run> RunsOf(const v1::TuningTable& tuning) {
  std::vector<Run> runs;
  for (int i = 0; i < tuning.rows_size(); ++i) {
    if (i > 0 && ChoosesAlike(tuning.rows(i - 1), tuning.rows(i))) {
      ++runs.back().last;
    } else {
      runs.push_back({i, i + 1});
    }
  }
  return runs;
}

std::string PredictedText(const v1::TuningRow& first, const v1::TuningRow& last) {
  if (first.seconds() == 0) {
    return "-";
  }
  std::string text = TimeCell(first.seconds()) + " at " + Size(first.seconds_at());
  if (last.seconds_at() != first.seconds_at()) {
    absl::StrAppend(&text, " to ", TimeCell(last.seconds()), " at ", Size(last.seconds_at()));
  }
  return text;
}

// The least and the greatest of the rows' ratios.
std::string MeasuredText(const v1::JobStatus& job, const Run& run) {
  double least = 0;
  double greatest = 0;
  std::uint64_t ops = 0;
  for (const v1::RowMeasured& row : job.measured()) {
    const int index = static_cast<int>(row.row());
    if (index >= run.first && index < run.last) {
      least = ops == 0 ? row.ratio() : std::min(least, row.ratio());
      greatest = std::max(greatest, row.ratio());
      ops += row.ops();
    }
  }
  if (ops == 0) {
    return "-";
  }
  return (greatest - least < 0.005 ? absl::StrFormat("%.2f", least)
                                   : absl::StrFormat("%.2f..%.2f", least, greatest)) +
         absl::StrFormat(" of it (%d ops)", ops);
}

// What the other columns do not have: instead of the prediction for the algorithm, where it is
// from.
std::string WhyText(const std::string& reason) {
  const std::size_t others = reason.find("; instead: ");
  if (others == std::string::npos) {
    return reason;
  }
  const std::string chosen = reason.substr(0, others);
  const char* source = absl::StartsWith(chosen, "tries ")        ? "a trial"
                       : absl::StrContains(chosen, "(measured)") ? "measured"
                                                                 : "modelled";
  return source + reason.substr(others);
}

// Of a link, or of a level's links.
template <typename Cost>
std::string RateText(const Cost& cost) {
  return absl::StrFormat("%.2f Gbit/s", cost.bytes_per_second() * 8e-9);
}

std::string Indented(const std::string& text) {
  std::istringstream lines(text);
  std::string indented;
  for (std::string line; std::getline(lines, line);) {
    indented += "    " + line + "\n";
  }
  return indented;
}

}  // namespace

std::string LinksText(const v1::Status& status) {
  if (status.links().empty()) {
    return "";
  }
  TextTable table({"LINK", "LATENCY", "BANDWIDTH", "PER MESSAGE", "SAMPLES", "MEASURED"});
  for (int i = 0; i < std::min(status.links_size(), kLinksShown); ++i) {
    const v1::LinkStatus& link = status.links(i);
    table.AddRow({absl::StrCat(link.node_a(), " - ", link.node_b()),
                  TimeCell(link.latency_seconds()),
                  RateText(link),
                  TimeCell(link.message_seconds()),
                  absl::StrCat(link.samples()),
                  absl::StrFormat("%.0f s ago", link.since_seconds())});
  }
  std::string text = "\n" + table.ToString();
  if (status.links_size() > kLinksShown) {
    absl::StrAppend(&text, "and ", status.links_size() - kLinksShown, " more (--json)\n");
  }
  return text;
}

std::string TuningText(const v1::JobStatus& job) {
  std::string text;
  if (!job.levels().empty()) {
    absl::StrAppend(&text, "  levels:");
    for (const v1::Level& level : job.levels()) {
      absl::StrAppend(
          &text, " groups of ", absl::StrJoin(level.groups(), ","), " by ", level.algorithm());
      if (level.bytes_per_second() > 0) {
        absl::StrAppend(&text, " (", TimeCell(level.latency_seconds()), ", ", RateText(level), ")");
      }
      absl::StrAppend(&text, ";");
    }
    text.back() = '\n';
  }
  if (job.tuning().rows().empty()) {
    return job.state() == "running"
               ? text + "  no tuning table: no links are measured, so agents go by their own rule\n"
               : text;
  }
  absl::StrAppend(&text, "  tuning table ", job.tuning().version(), ":\n");
  TextTable table({"OP", "FROM", "BELOW", "ALGORITHM", "SLICES", "PREDICTED", "TOOK", "WHY"});
  for (const Run& run : RunsOf(job.tuning())) {
    const v1::TuningRow& first = job.tuning().rows(run.first);
    const v1::TuningRow& last = job.tuning().rows(run.last - 1);
    table.AddRow({first.collective(),
                  Size(first.bytes_begin()),
                  Size(last.bytes_end()),
                  first.algorithm(),
                  first.slice_bytes() == 0 ? "-" : Size(first.slice_bytes()),
                  PredictedText(first, last),
                  MeasuredText(job, run),
                  WhyText(first.reason())});
  }
  return text + Indented(table.ToString());
}

}  // namespace maypole::cli
