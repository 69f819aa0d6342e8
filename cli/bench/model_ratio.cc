#include "cli/bench/model_ratio.h"

#include <cstdint>
#include <cstdio>

#include "cli/calibrate.h"
#include "cli/coordinator_client.h"

namespace maypole::cli {
namespace {

constexpr std::uint64_t kSliceBytes = 256 * 1024;  // of agents that are not told otherwise

}  // namespace

std::optional<double> ModelRatio::Of(const BenchRow& row, collective::Collective collective) {
  using collective::Algorithm;
  using collective::Collective;
  const auto algorithm = collective::AlgorithmFromName(row.algorithm);
  if (row.nodes < 2 || !algorithm || *algorithm == Algorithm::kHierarchical || !Link()) {
    return std::nullopt;
  }
  // What nodes exchange is what ranks exchange times their number.
  const std::uint64_t bytes =
      collective == Collective::kAllToAll ? row.bytes * row.ranks / row.nodes : row.bytes;
  const double seconds =
      Predict(collective, *algorithm, bytes, row.nodes, *link_, kSliceBytes).seconds;
  return seconds > 0 ? std::optional(row.time_us * 1e-6 / seconds) : std::nullopt;
}

const std::optional<collective::LinkModel>& ModelRatio::Link() {
  if (!link_ && !coordinator_.empty()) {
    const auto status = FetchStatus({.address = coordinator_, .timeout_seconds = 1});
    if (!status.ok()) {
      std::fprintf(
          stderr, "no ratio to the model: %s\n", std::string(status.status().message()).c_str());
      coordinator_.clear();
    } else if (const auto calibration = CalibrationFrom(*status); calibration.ok()) {
      link_ = calibration->link;
    }
  }
  return link_;
}

}  // namespace maypole::cli
