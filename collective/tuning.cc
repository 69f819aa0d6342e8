#include "collective/tuning.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

#include "collective/parts.h"
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

// Larger slices need a rendezvous, whose cost the model does not know.
constexpr std::uint64_t kSlices[] = {256 * 1024, 64 * 1024, 128 * 1024};

// Sizes are modelled at powers of two from here on; the first row also holds what is smaller, the
// last what is larger.
constexpr int kSmallestPower = 10;
constexpr int kLargestPower = 34;

struct Option {
  Algorithm algorithm = Algorithm::kRing;
  std::uint64_t slice_bytes = 0;
  double seconds = std::numeric_limits<double>::infinity();
};

// Whether the formulas know it.
bool IsModelled(const TuningInput& input, Collective collective, Algorithm algorithm) {
  if (!input.links || !IsAvailable(collective, algorithm)) {
    return false;
  }
  switch (algorithm) {
    case Algorithm::kHierarchical:
      return collective == Collective::kAllReduce && !input.links->levels.empty();
    case Algorithm::kTree:
      return collective == Collective::kAllReduce || HasRoot(collective);
    default:
      return true;
  }
}

double Seconds(const TuningInput& input,
               Collective collective,
               const Option& option,
               std::uint64_t bytes) {
  const MeasuredLinks& links = *input.links;
  const double seconds =
      option.algorithm == Algorithm::kHierarchical
          ? PredictHierarchical(links.levels, bytes, option.slice_bytes).seconds
          : Predict(collective,
                    option.algorithm,
                    bytes,
                    input.members,
                    option.algorithm == Algorithm::kRing ? links.ring : links.any,
                    option.slice_bytes)
                .seconds;
  return seconds * CorrectionFor(input.corrections, collective, option.algorithm, bytes);
}

// With its best slice; of equal ones the first in kSlices.
Option BestOf(const TuningInput& input,
              Collective collective,
              Algorithm algorithm,
              std::uint64_t bytes) {
  Option best;
  for (const std::uint64_t slice : kSlices) {
    Option option = {algorithm, slice, 0};
    option.seconds = Seconds(input, collective, option, bytes);
    if (option.seconds < best.seconds * (1 - 1e-9)) {
      best = option;
    }
  }
  best.algorithm = algorithm;
  return best;
}

std::vector<Option> OptionsFor(const TuningInput& input,
                               Collective collective,
                               std::uint64_t bytes) {
  std::vector<Option> options;
  for (const Algorithm algorithm : kCandidates) {
    if (IsModelled(input, collective, algorithm)) {
      options.push_back(BestOf(input, collective, algorithm, bytes));
    }
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

void SetPrediction(const TuningInput& input, const Option& option, TuningRow& row) {
  row.seconds = option.seconds;
  row.seconds_per_byte =
      std::max(0.0,
               (Seconds(input, row.collective, option, 2 * row.seconds_at) - option.seconds) /
                   static_cast<double>(row.seconds_at));
}

// The size at which a range is modelled: its first, unless that is too small to be modelled.
std::uint64_t ModelledAt(std::uint64_t begin) {
  return std::max(begin, std::uint64_t{1} << kSmallestPower);
}

TuningRow ModelRow(const TuningInput& input,
                   Collective collective,
                   std::uint64_t begin,
                   std::uint64_t end) {
  const std::uint64_t bytes = ModelledAt(begin);
  const std::vector<Option> options = OptionsFor(input, collective, bytes);
  double fastest = options.front().seconds;
  for (const Option& option : options) {
    fastest = std::min(fastest, option.seconds);
  }
  const auto chosen = std::find_if(options.begin(), options.end(), [&](const Option& option) {
    return option.seconds <= fastest * (1 + kTie);
  });
  TuningRow row = {.collective = collective,
                   .bytes_begin = begin,
                   .bytes_end = end,
                   .algorithm = chosen->algorithm,
                   .slice_bytes = chosen->slice_bytes,
                   .seconds_at = bytes,
                   .reason = Described(*chosen) + " at " + std::to_string(bytes) + " bytes among " +
                             std::to_string(input.members) + "; instead:"};
  SetPrediction(input, *chosen, row);
  const char* separator = " ";
  for (const Option& option : options) {
    if (option.algorithm != chosen->algorithm) {
      row.reason += separator + Described(option);
      separator = ", ";
    }
  }
  return row;
}

TuningRow RuleRow(const TuningInput& input,
                  const TuningRule& rule,
                  std::uint64_t begin,
                  std::uint64_t end) {
  TuningRow row = {.collective = rule.collective,
                   .bytes_begin = begin,
                   .bytes_end = end,
                   .algorithm = rule.algorithm,
                   .slice_bytes = rule.slice_bytes,
                   .is_rule = true,
                   .reason = std::string(Name(rule.algorithm)) + ": " + rule.origin + " says so"};
  if (IsModelled(input, rule.collective, rule.algorithm)) {
    row.seconds_at = ModelledAt(begin);
    Option option = BestOf(input, rule.collective, rule.algorithm, row.seconds_at);
    if (rule.slice_bytes != 0) {
      option.slice_bytes = rule.slice_bytes;
      option.seconds = Seconds(input, rule.collective, option, row.seconds_at);
    }
    row.slice_bytes = option.slice_bytes;
    SetPrediction(input, option, row);
  }
  return row;
}

bool Counts(const TuningInput& input, const TuningRule& rule) {
  return rule.algorithm != Algorithm::kHierarchical || input.has_levels;
}

// The formulas know nothing to choose from for the others.
bool HasModel(Collective collective) {
  return collective != Collective::kBarrier && IsAvailable(collective, Algorithm::kRing);
}

// Where a row begins: at every octave and at the ends of every rule.
std::set<std::uint64_t> Borders(const TuningInput& input, Collective collective) {
  std::set<std::uint64_t> borders;
  if (input.links && HasModel(collective)) {
    borders.insert(0);
    for (int power = kSmallestPower + 1; power <= kLargestPower; ++power) {
      borders.insert(std::uint64_t{1} << power);
    }
  }
  for (const TuningRule& rule : input.rules) {
    if (rule.collective == collective && Counts(input, rule)) {
      borders.insert(rule.bytes_begin);
      borders.insert(rule.bytes_end);
    }
  }
  borders.erase(kNoLimit);
  return borders;
}

void AddRows(const TuningInput& input, Collective collective, TuningTable& table) {
  const std::set<std::uint64_t> borders = Borders(input, collective);
  for (auto border = borders.begin(); border != borders.end(); ++border) {
    const std::uint64_t begin = *border;
    const std::uint64_t end = std::next(border) == borders.end() ? kNoLimit : *std::next(border);
    const auto rule =
        std::find_if(input.rules.begin(), input.rules.end(), [&](const TuningRule& r) {
          return r.collective == collective && r.bytes_begin <= begin && begin < r.bytes_end &&
                 Counts(input, r);
        });
    if (rule != input.rules.end()) {
      table.rows.push_back(RuleRow(input, *rule, begin, end));
    } else if (input.links && HasModel(collective)) {
      table.rows.push_back(ModelRow(input, collective, begin, end));
    }
  }
}

}  // namespace

double TuningRow::SecondsFor(std::uint64_t bytes) const {
  const double beyond = static_cast<double>(bytes) - static_cast<double>(seconds_at);
  // Below the smallest modelled size the line might fall under any real time.
  return std::max(seconds / 2, seconds + beyond * seconds_per_byte);
}

const TuningRow* TuningTable::Find(Collective collective, std::uint64_t bytes) const {
  for (const TuningRow& row : rows) {
    if (row.collective == collective && bytes >= row.bytes_begin &&
        (bytes < row.bytes_end || row.bytes_end == kNoLimit)) {
      return &row;
    }
  }
  return nullptr;
}

double CorrectionFor(std::span<const Correction> corrections,
                     Collective collective,
                     Algorithm algorithm,
                     std::uint64_t bytes) {
  double factor = 1;
  double nearest = 2;  // octaves
  for (const Correction& correction : corrections) {
    if (correction.collective != collective || correction.algorithm != algorithm ||
        correction.bytes == 0 || bytes == 0) {
      continue;
    }
    const double distance =
        std::abs(std::log2(static_cast<double>(bytes) / static_cast<double>(correction.bytes)));
    if (distance <= 1 && distance < nearest) {
      nearest = distance;
      factor = correction.factor;
    }
  }
  return factor;
}

TuningTable MakeTuningTable(const TuningInput& input) {
  MAYPOLE_CHECK(input.members > 0);
  MAYPOLE_CHECK(!input.links ||
                (input.links->ring.bytes_per_second > 0 && input.links->any.bytes_per_second > 0));
  TuningTable table;
  for (std::size_t number = 0; number < kCollectiveCount; ++number) {
    AddRows(input, static_cast<Collective>(number), table);
  }
  return table;
}

TuningTable MakeTuningTable(std::uint32_t members,
                            LinkModel link,
                            std::span<const LevelModel> levels) {
  return MakeTuningTable({.members = members,
                          .links = MeasuredLinks{link, link, {levels.begin(), levels.end()}},
                          .has_levels = !levels.empty()});
}

}  // namespace maypole::collective
