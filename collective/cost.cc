#include "collective/cost.h"

#include <cmath>

#include "common/check.h"

namespace maypole::collective {
namespace {

Cost Predict(std::uint32_t rounds, std::uint32_t latencies, double bytes, LinkModel link) {
  const auto whole_bytes = static_cast<std::uint64_t>(std::ceil(bytes));
  return {.rounds = rounds,
          .bytes_sent = whole_bytes,
          .bytes_received = whole_bytes,
          .seconds = latencies * link.latency_seconds + bytes / link.bytes_per_second};
}

}  // namespace

Cost PredictAllReduce(Algorithm algorithm,
                      std::uint64_t bytes,
                      std::uint32_t members,
                      LinkModel link) {
  MAYPOLE_CHECK(algorithm != Algorithm::kAuto && members > 0 && link.bytes_per_second > 0);
  if (members == 1) {
    return {};
  }
  const std::uint32_t others = members - 1;
  const double size = static_cast<double>(bytes);
  const double chunked = 2.0 * others * size / members;
  switch (algorithm) {
    case Algorithm::kAuto:
    case Algorithm::kRing:
      break;
    case Algorithm::kDirect:
      return Predict(2, 2, chunked, link);
    case Algorithm::kNaive: {
      Cost cost = Predict(1, others, others * size, link);
      cost.seconds *= 2;
      return cost;
    }
  }
  return Predict(2 * others, 2 * others, chunked, link);
}

double EffectiveBandwidth(std::uint64_t bytes, double seconds) {
  return seconds > 0 ? 2.0 * static_cast<double>(bytes) / seconds : 0;
}

}  // namespace maypole::collective
