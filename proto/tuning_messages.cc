#include "proto/tuning_messages.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "collective/hierarchical.h"
#include "collective/select.h"
#include "proto/control.h"
#include "proto/coordinator.pb.h"
#include "proto/text.h"

namespace maypole {
namespace {

// 0: as the agents are set.
bool IsSlice(std::uint64_t bytes) {
  return bytes == 0 || (bytes >= collective::kSliceBytesMin && bytes <= collective::kSliceBytesMax);
}

absl::Status Invalid(int row, const std::string& what) {
  return absl::InvalidArgumentError("row " + std::to_string(row) + " of the tuning table: " + what);
}

bool IsTime(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

absl::StatusOr<collective::TuningRow> ReadRow(const v1::TuningRow& in, int index) {
  const auto collective = collective::CollectiveFromName(in.collective());
  const auto algorithm = collective::AlgorithmFromName(in.algorithm());
  if (!collective || !algorithm) {
    return Invalid(index,
                   "\"" + in.algorithm() + "\" for \"" + in.collective() + "\" does not exist");
  }
  if (in.bytes_begin() >= in.bytes_end() || !IsSlice(in.slice_bytes())) {
    return Invalid(index,
                   "from " + std::to_string(in.bytes_begin()) + " below " +
                       std::to_string(in.bytes_end()) + " bytes in slices of " +
                       std::to_string(in.slice_bytes()) + " bytes cannot be");
  }
  if (!IsTime(in.seconds()) || !IsTime(in.seconds_per_byte())) {
    return Invalid(index, "a predicted time of " + std::to_string(in.seconds()) + " s cannot be");
  }
  return collective::TuningRow{.collective = *collective,
                               .bytes_begin = in.bytes_begin(),
                               .bytes_end = in.bytes_end(),
                               .algorithm = *algorithm,
                               .slice_bytes = in.slice_bytes(),
                               .seconds = in.seconds(),
                               .seconds_at = in.seconds_at(),
                               .seconds_per_byte = in.seconds_per_byte(),
                               .is_rule = in.is_rule(),
                               .reason = in.reason()};
}

template <typename Message>
void AddLevels(const std::vector<collective::Level>& levels, Message& message) {
  for (const collective::Level& level : levels) {
    v1::Level& out = *message.add_levels();
    out.set_algorithm(std::string(Name(level.algorithm)));
    for (const std::uint32_t group : level.groups) {
      out.add_groups(group);
    }
  }
}

}  // namespace

void FillTuning(const collective::TuningTable& tuning, v1::TuningTable& message) {
  message.set_version(tuning.version);
  for (const collective::TuningRow& row : tuning.rows) {
    v1::TuningRow& out = *message.add_rows();
    out.set_collective(std::string(Name(row.collective)));
    out.set_bytes_begin(row.bytes_begin);
    out.set_bytes_end(row.bytes_end);
    out.set_algorithm(std::string(Name(row.algorithm)));
    out.set_slice_bytes(row.slice_bytes);
    out.set_seconds(row.seconds);
    out.set_seconds_at(row.seconds_at);
    out.set_seconds_per_byte(row.seconds_per_byte);
    out.set_is_rule(row.is_rule);
    out.set_reason(std::string(CutUtf8(row.reason, kControlTextBytesMax)));
  }
}

absl::StatusOr<collective::TuningTable> ReadTuning(const v1::TuningTable& message) {
  if (message.rows_size() > kTuningRowsMax) {
    return absl::InvalidArgumentError("a tuning table of " + std::to_string(message.rows_size()) +
                                      " rows, more than " + std::to_string(kTuningRowsMax));
  }
  collective::TuningTable tuning{.version = message.version(), .rows = {}};
  for (int i = 0; i < message.rows_size(); ++i) {
    absl::StatusOr<collective::TuningRow> row = ReadRow(message.rows(i), i);
    if (!row.ok()) {
      return row.status();
    }
    if (!tuning.rows.empty() && tuning.rows.back().collective == row->collective &&
        row->bytes_begin < tuning.rows.back().bytes_end) {
      return Invalid(i,
                     "from " + std::to_string(row->bytes_begin) +
                         " bytes overlaps the row before it, which ends at " +
                         std::to_string(tuning.rows.back().bytes_end));
    }
    tuning.rows.push_back(*std::move(row));
  }
  return tuning;
}

void FillLevels(const std::vector<collective::Level>& levels, v1::Epoch& epoch) {
  AddLevels(levels, epoch);
}

void FillLevels(const std::vector<collective::Level>& levels, v1::JobStatus& job) {
  AddLevels(levels, job);
}

absl::StatusOr<std::vector<collective::Level>> ReadLevels(const v1::Epoch& epoch) {
  collective::Shape shape{.members = static_cast<std::uint32_t>(epoch.members_size())};
  for (const v1::Level& in : epoch.levels()) {
    const auto algorithm = collective::AlgorithmFromName(in.algorithm());
    if (!algorithm) {
      return absl::InvalidArgumentError("level algorithm \"" + in.algorithm() +
                                        "\" does not exist");
    }
    shape.levels.push_back(
        {.groups = {in.groups().begin(), in.groups().end()}, .algorithm = *algorithm});
  }
  const std::string problem = shape.levels.empty() ? "" : collective::HierarchyProblem(shape);
  if (!problem.empty()) {
    return absl::InvalidArgumentError("levels: " + problem);
  }
  return std::move(shape.levels);
}

}  // namespace maypole
