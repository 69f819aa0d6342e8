#include "agent/engine/row_ratios.h"

#include <algorithm>

namespace maypole::agent {

void RowRatios::Add(std::size_t row, double seconds, double predicted) {
  if (row >= rows_.size()) {
    rows_.resize(row + 1);
  }
  Row& entry = rows_[row];
  entry.last[entry.count++ % kOpsKept] = seconds / predicted;
  ++entry.fresh;
  entry.fresh_seconds += seconds;
}

void RowRatios::Forget(std::size_t row) {
  if (row < rows_.size()) {
    rows_[row] = {};
  }
}

std::vector<RowMeasured> RowRatios::Take() {
  std::vector<RowMeasured> taken;
  for (std::uint32_t i = 0; i < rows_.size(); ++i) {
    Row& row = rows_[i];
    if (row.fresh < kOpsPerReport &&
        (row.fresh < kLongOpsPerReport || row.fresh_seconds < kLongSeconds)) {
      continue;
    }
    std::vector<double> last(row.last.begin(),
                             row.last.begin() + static_cast<std::ptrdiff_t>(
                                                    std::min<std::uint64_t>(row.count, kOpsKept)));
    const auto middle = last.begin() + static_cast<std::ptrdiff_t>(last.size() / 2);
    std::nth_element(last.begin(), middle, last.end());
    taken.push_back({.row = i, .ops = row.fresh, .ratio = *middle});
    row.fresh = 0;
    row.fresh_seconds = 0;
  }
  return taken;
}

}  // namespace maypole::agent
