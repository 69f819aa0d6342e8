#include "cli/bench/model_ratio.h"

#include "cli/calibrate.h"
#include "cli/coordinator_client.h"

namespace maypole::cli {

std::optional<double> ModelRatio::Of(const BenchRow& row, collective::Collective collective) {
  using collective::Algorithm;
  const auto algorithm = collective::AlgorithmFromName(row.algorithm);
  if (row.nodes < 2 || !algorithm || *algorithm == Algorithm::kHierarchical || !Link()) {
    return std::nullopt;
  }
  const double seconds = Predict(collective, *algorithm, row.bytes, row.nodes, *link_).seconds;
  return seconds > 0 ? std::optional(row.time_us * 1e-6 / seconds) : std::nullopt;
}

const std::optional<collective::LinkModel>& ModelRatio::Link() {
  if (!link_ && !coordinator_.empty()) {
    const auto status = FetchStatus({.address = coordinator_, .timeout_seconds = 1});
    if (!status.ok()) {
      coordinator_.clear();
    } else if (const auto calibration = CalibrationFrom(*status); calibration.ok()) {
      link_ = calibration->link;
    }
  }
  return link_;
}

}  // namespace maypole::cli
