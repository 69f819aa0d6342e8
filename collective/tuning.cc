#include "collective/tuning.h"

#include <algorithm>
#include <cstdio>

#include "common/check.h"

namespace maypole::collective {
namespace {

// In the order of preference among equals. Naive only costs.
constexpr Algorithm kCandidates[] = {Algorithm::kRing,
                                     Algorithm::kHalvingDoubling,
                                     Algorithm::kDoubleTree,
                                     Algorithm::kHierarchical,
                                     Algorithm::kTree,
                                     Algorithm::kDirect};

constexpr std::uint64_t kSlices[] = {512 * 1024, 64 * 1024, 128 * 1024, 256 * 1024, 1024 * 1024};

// Sizes are modelled at powers of two from here on; the first row also holds what is smaller, the
// last what is larger.
constexpr int kSmallestPower = 10;
constexpr int kLargestPower = 34;

struct Option {
  Algorithm algorithm = Algorithm::kRing;
  std::uint64_t slice_bytes = 0;
  double seconds = std::numeric_limits<double>::infinity();
};

struct Links {
  std::uint32_t members;
  LinkModel link;
  std::span<const LevelModel> levels;
};

double Predict(const Links& links, const Option& option, std::uint64_t bytes) {
  return option.algorithm == Algorithm::kHierarchical
             ? PredictHierarchical(links.levels, bytes, option.slice_bytes).seconds
             : PredictAllReduce(
                   option.algorithm, bytes, links.members, links.link, option.slice_bytes)
                   .seconds;
}

// Each algorithm with its best slice; of equal ones the first in kSlices.
std::vector<Option> OptionsFor(const Links& links, std::uint64_t bytes) {
  std::vector<Option> options;
  for (const Algorithm algorithm : kCandidates) {
    if (algorithm == Algorithm::kHierarchical && links.levels.empty()) {
      continue;
    }
    Option best;
    for (const std::uint64_t slice : kSlices) {
      Option option = {algorithm, slice, 0};
      option.seconds = Predict(links, option, bytes);
      if (option.seconds < best.seconds * (1 - 1e-9)) {
        best = option;
      }
    }
    options.push_back(best);
  }
  return options;
}

std::string Text(double seconds) {
  char text[32];
  if (seconds < 1e-3) {
    std::snprintf(text, sizeof(text), "%.1f us", seconds * 1e6);
  } else {
    std::snprintf(text, sizeof(text), "%.2f ms", seconds * 1e3);
  }
  return text;
}

std::string Described(const Option& option) {
  return std::string(Name(option.algorithm)) + " " + Text(option.seconds);
}

TuningRow RowFor(const Links& links, std::uint64_t bytes) {
  const std::vector<Option> options = OptionsFor(links, bytes);
  double fastest = options.front().seconds;
  for (const Option& option : options) {
    fastest = std::min(fastest, option.seconds);
  }
  const auto chosen = std::find_if(options.begin(), options.end(), [&](const Option& option) {
    return option.seconds <= fastest * (1 + kTie);
  });
  TuningRow row = {.bytes_begin = bytes,
                   .algorithm = chosen->algorithm,
                   .slice_bytes = chosen->slice_bytes,
                   .seconds = chosen->seconds,
                   .seconds_at = bytes,
                   .reason = Described(*chosen) + " at " + std::to_string(bytes) + " bytes among " +
                             std::to_string(links.members) + "; instead:"};
  const char* separator = " ";
  for (const Option& option : options) {
    if (option.algorithm != chosen->algorithm) {
      row.reason += separator + Described(option);
      separator = ", ";
    }
  }
  return row;
}

}  // namespace

const TuningRow* TuningTable::Find(Collective collective, std::uint64_t bytes) const {
  for (const TuningRow& row : rows) {
    const bool last = row.bytes_end == std::numeric_limits<std::uint64_t>::max();
    if (row.collective == collective && bytes >= row.bytes_begin &&
        (bytes < row.bytes_end || last)) {
      return &row;
    }
  }
  return nullptr;
}

TuningTable MakeTuningTable(std::uint32_t members,
                            LinkModel link,
                            std::span<const LevelModel> levels) {
  MAYPOLE_CHECK(members > 0 && link.bytes_per_second > 0);
  const Links links = {members, link, levels};
  TuningTable table;
  for (int power = kSmallestPower; power <= kLargestPower; ++power) {
    TuningRow row = RowFor(links, std::uint64_t{1} << power);
    if (table.rows.empty()) {
      row.bytes_begin = 0;
    } else {
      TuningRow& before = table.rows.back();
      if (before.algorithm == row.algorithm && before.slice_bytes == row.slice_bytes) {
        continue;
      }
      before.bytes_end = row.bytes_begin;
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace maypole::collective
