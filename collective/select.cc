#include "collective/select.h"

#include "collective/parts.h"

namespace maypole::collective {
namespace {

Choice Without(Algorithm algorithm, std::string_view reason) {
  return {.algorithm = algorithm, .slice_bytes = 0, .row = nullptr, .reason = reason};
}

Choice By(const TuningRow& row) {
  return {.algorithm = row.algorithm,
          .slice_bytes = row.slice_bytes,
          .row = &row,
          .reason = row.reason};
}

}  // namespace

Choice Select(Collective collective,
              std::uint64_t bytes,
              std::uint32_t members,
              DType dtype,
              Algorithm hint,
              const TuningTable& table) {
  const TuningRow* row = table.Find(collective, bytes);
  if (hint != Algorithm::kAuto) {
    Choice choice = Without(hint, "asked for");
    if (row != nullptr && row->algorithm == hint) {
      choice.row = row;
      choice.slice_bytes = row->slice_bytes;
    }
    return choice;
  }
  if (collective == Collective::kBarrier || bytes == 0 || members <= 1) {
    return Without(Algorithm::kDirect, "nothing to send");
  }
  if (collective == Collective::kAllToAll || collective == Collective::kSendReceive) {
    return Without(Algorithm::kDirect, "every element has one way to go");
  }
  if (row != nullptr && row->is_rule) {
    return By(*row);
  }
  const bool has_root = HasRoot(collective);
  if ((dtype == DType::kF16 || dtype == DType::kBF16) && Sums(collective) && !has_root) {
    return Without(Algorithm::kDirect, "half types are summed in f32 and rounded once");
  }
  if (row != nullptr) {
    return By(*row);
  }
  if (bytes <= kDirectMaxBytes) {
    return Without(has_root ? Algorithm::kTree : Algorithm::kDirect,
                   "no links are measured; up to 256 KiB latency counts");
  }
  return Without(Algorithm::kRing, "no links are measured; beyond 256 KiB bandwidth counts");
}

}  // namespace maypole::collective
