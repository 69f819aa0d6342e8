#include "cli/calibrate.h"

#include <algorithm>
#include <vector>

#include <absl/strings/str_format.h>

#include "cli/text_table.h"

namespace maypole::cli {
namespace {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

absl::StatusOr<Calibration> CalibrationFrom(const v1::Status& status) {
  std::vector<double> latencies;
  std::vector<double> rates;
  std::vector<double> messages;
  const v1::LinkStatus* slowest = nullptr;
  for (const v1::LinkStatus& link : status.links()) {
    if (link.bytes_per_second() <= 0) {
      continue;  // not measured yet
    }
    latencies.push_back(link.latency_seconds());
    rates.push_back(link.bytes_per_second());
    messages.push_back(link.message_seconds());
    if (slowest == nullptr || link.bytes_per_second() < slowest->bytes_per_second()) {
      slowest = &link;
    }
  }
  if (slowest == nullptr) {
    return absl::FailedPreconditionError(
        "no link is measured there yet; the links between attached agents are measured while "
        "none of their ops runs, and by maypole status --probe-links");
  }
  return Calibration{
      .link = {.latency_seconds = Median(latencies),
               .bytes_per_second = Median(rates),
               .message_seconds = Median(messages)},
      .summary = absl::StrFormat("%s measured; the slowest, %s to %s, carries %.4g Gbit/s",
                                 Counted(rates.size(), "link"),
                                 slowest->node_a(),
                                 slowest->node_b(),
                                 slowest->bytes_per_second() * 8 / 1e9)};
}

}  // namespace maypole::cli
