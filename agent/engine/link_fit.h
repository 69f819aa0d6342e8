// From the times of round trips to the latency, the cost per message and the bandwidth of a link.
//
// Pure. A *train* is `frames` frames of `frame_bytes` each, sent at once; the other side answers
// the last of them with a frame without payload. So a train takes
//   2 latency + frames * message + frames * frame_bytes / bandwidth.
// Other load only ever adds to a time, so of each kind of train a low quantile counts. Not the
// lowest: a link behind a token bucket lets the first bytes pass faster than it ever does again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective/cost.h"

namespace maypole::agent {

struct TrainKind {
  std::uint32_t frames = 1;
  std::uint64_t frame_bytes = 0;
  std::uint32_t repeats = 1;  // the first is not counted: it warms up connection and caches
};

// In this order. A megabyte per bulk train, in frames as large as the slices of ops.
inline constexpr std::array<TrainKind, 3> kTrains = {
    TrainKind{1, 0, 17}, TrainKind{16, 0, 9}, TrainKind{4, 256 * 1024, 7}};

// Seconds of each repeat, by kind of train. Empty if a kind was not measured.
std::optional<collective::LinkModel> FitLink(
    std::span<const std::vector<double>, kTrains.size()> seconds);

}  // namespace maypole::agent
