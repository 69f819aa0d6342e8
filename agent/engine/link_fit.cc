#include "agent/engine/link_fit.h"

#include <algorithm>

namespace maypole::agent {
namespace {

constexpr double kSecondsMin = 1e-9;  // what no clock resolves

// The lower quartile.
double Quiet(std::vector<double> seconds) {
  const auto quartile = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 4);
  std::nth_element(seconds.begin(), quartile, seconds.end());
  return *quartile;
}

}  // namespace

std::optional<collective::LinkModel> FitLink(
    std::span<const std::vector<double>, kTrains.size()> seconds) {
  std::array<double, kTrains.size()> quiet{};
  for (std::size_t kind = 0; kind < kTrains.size(); ++kind) {
    if (seconds[kind].empty()) {
      return std::nullopt;
    }
    quiet[kind] = Quiet(seconds[kind]);
  }
  const auto& [one, many, bulk] = kTrains;
  const double message =
      std::max(kSecondsMin, (quiet[1] - quiet[0]) / static_cast<double>(many.frames - one.frames));
  const double latency = std::max(kSecondsMin, (quiet[0] - one.frames * message) / 2);
  const double empty = 2 * latency + bulk.frames * message;
  const double bytes = static_cast<double>(bulk.frames) * static_cast<double>(bulk.frame_bytes);
  return collective::LinkModel{
      .latency_seconds = latency,
      .bytes_per_second = bytes / std::max(quiet[2] - empty, quiet[2] / 100),
      .message_seconds = message};
}

}  // namespace maypole::agent
