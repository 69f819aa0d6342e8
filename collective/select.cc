#include "collective/select.h"

namespace maypole::collective {

Choice Select(Collective collective,
              std::uint64_t bytes,
              std::uint32_t members,
              DType dtype,
              Algorithm hint) {
  if (hint != Algorithm::kAuto) {
    return {hint, std::string(Name(hint)) + ": asked for"};
  }
  if (collective == Collective::kBarrier || bytes == 0 || members <= 1) {
    return {Algorithm::kDirect, "direct: nothing to send"};
  }
  if (dtype == DType::kF16 || dtype == DType::kBF16) {
    return {Algorithm::kDirect,
            "direct: " + std::string(Name(dtype)) + " is summed in f32 and rounded once"};
  }
  if (bytes <= kDirectMaxBytes) {
    return {Algorithm::kDirect,
            "direct: " + std::to_string(bytes) + " bytes are at most " +
                std::to_string(kDirectMaxBytes) + ", so latency counts: 2 rounds, not " +
                std::to_string(2 * (members - 1))};
  }
  return {Algorithm::kRing,
          "ring: " + std::to_string(bytes) + " bytes are more than " +
              std::to_string(kDirectMaxBytes) + ", so bandwidth counts"};
}

}  // namespace maypole::collective
