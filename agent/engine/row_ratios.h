// How long the ops of one job took, over what the rows of its tuning table predicted.
//
// Pure; of each row the last kOpsKept count. An op counts if it had the agent to itself: the
// formulas know no contention.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/engine/events.h"

namespace maypole::agent {

class RowRatios {
 public:
  static constexpr std::size_t kOpsKept = 32;
  // A report needs so many new ones, or a few that took long: one slow op is no news.
  static constexpr std::uint32_t kOpsPerReport = 16;
  static constexpr std::uint32_t kLongOpsPerReport = 3;
  static constexpr double kLongSeconds = 0.5;  // together

  void Add(std::size_t row, double seconds, double predicted);
  // The medians of rows with news enough since the last call.
  std::vector<RowMeasured> Take();

  // The row says something else now.
  void Forget(std::size_t row);

 private:
  struct Row {
    std::array<double, kOpsKept> last{};  // a ring
    std::uint64_t count = 0;
    std::uint32_t fresh = 0;
    double fresh_seconds = 0;
  };

  std::vector<Row> rows_;
};

}  // namespace maypole::agent
