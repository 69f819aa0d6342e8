// Columns of text, padded to their widest cell. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/str_format.h>

namespace maypole::cli {

// A time as a cell: in milliseconds, up to many, so that a column compares; very short and long
// ones, which a column may have beside them, in microseconds and seconds.
inline std::string TimeCell(double seconds) {
  if (seconds >= 10) {
    return absl::StrFormat("%.2f s", seconds);
  }
  return seconds == 0 || seconds >= 1e-3 ? absl::StrFormat("%.2f ms", seconds * 1e3)
                                         : absl::StrFormat("%.1f us", seconds * 1e6);
}

// "1 node", "3 nodes".
inline std::string Counted(std::uint64_t number, const std::string& thing) {
  return absl::StrFormat("%d %s%s", number, thing, number == 1 ? "" : "s");
}

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { AddRow(std::move(header)); }

  // As many cells as the header has.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  std::string ToString() const {
    std::string text;
    for (const std::vector<std::string>& row : rows_) {
      for (std::size_t column = 0; column < row.size(); ++column) {
        text += row[column];
        if (column + 1 < row.size()) {
          text.append(WidthOf(column) + 2 - row[column].size(), ' ');
        }
      }
      text += '\n';
    }
    return text;
  }

 private:
  std::size_t WidthOf(std::size_t column) const {
    std::size_t width = 0;
    for (const std::vector<std::string>& row : rows_) {
      width = std::max(width, row.at(column).size());
    }
    return width;
  }

  std::vector<std::vector<std::string>> rows_;
};

}  // namespace maypole::cli
