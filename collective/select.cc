#include "collective/select.h"

#include "collective/cost.h"
#include "collective/parts.h"

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
  if (collective == Collective::kAllToAll || collective == Collective::kSendReceive) {
    return {Algorithm::kDirect, "direct: every element has one way to go"};
  }
  const bool has_root = HasRoot(collective);
  if ((dtype == DType::kF16 || dtype == DType::kBF16) && Sums(collective) && !has_root) {
    return {Algorithm::kDirect,
            "direct: " + std::string(Name(dtype)) + " is summed in f32 and rounded once"};
  }
  if (bytes <= kDirectMaxBytes) {
    const Algorithm quick = has_root ? Algorithm::kTree : Algorithm::kDirect;
    const auto rounds = [&](Algorithm algorithm) {
      return std::to_string(
          Predict(collective, algorithm, bytes, members, {.bytes_per_second = 1}).rounds);
    };
    return {quick,
            std::string(Name(quick)) + ": " + std::to_string(bytes) + " bytes are at most " +
                std::to_string(kDirectMaxBytes) + ", so latency counts: rounds of messages are " +
                rounds(quick) + ", not " + rounds(Algorithm::kRing)};
  }
  return {Algorithm::kRing,
          "ring: " + std::to_string(bytes) + " bytes are more than " +
              std::to_string(kDirectMaxBytes) + ", so bandwidth counts"};
}

}  // namespace maypole::collective
