// Columns of text, padded to their widest cell. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace maypole::cli {

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
