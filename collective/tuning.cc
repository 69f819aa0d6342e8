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
  std::uint32_t visits = 0;  // how often it was measured at the very size
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

double Formula(const MeasuredLinks& links,
               std::uint32_t members,
               Collective collective,
               const Option& option,
               std::uint64_t bytes) {
  return option.algorithm == Algorithm::kHierarchical
             ? PredictHierarchical(links.levels, bytes, option.slice_bytes).seconds
             : Predict(collective,
                       option.algorithm,
                       bytes,
                       members,
                       option.algorithm == Algorithm::kRing ? links.ring : links.any,
                       option.slice_bytes)
                   .seconds;
}

// Of the nearest correction that reaches `bytes`, of equally near ones the smaller's; else 1.
double FactorFor(const TuningInput& input,
                 Collective collective,
                 Algorithm algorithm,
                 std::uint64_t bytes) {
  const Correction* nearest = nullptr;
  double least = 1;  // octaves
  for (const Correction& known : input.corrections) {
    if (known.collective != collective || known.algorithm != algorithm || known.bytes == 0) {
      continue;
    }
    const double distance =
        std::abs(std::log2(static_cast<double>(bytes) / static_cast<double>(known.bytes)));
    const bool is_nearer =
        distance < least || (distance == least && (!nearest || known.bytes < nearest->bytes));
    if (is_nearer) {
      nearest = &known;
      least = distance;
    }
  }
  return nearest == nullptr ? 1 : nearest->factor;
}

double Seconds(const TuningInput& input,
               Collective collective,
               const Option& option,
               std::uint64_t bytes) {
  return Formula(*input.links, input.members, collective, option, bytes) *
         FactorFor(input, collective, option.algorithm, bytes);
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

std::vector<Option> OptionsFor(const TuningInput& input, const TuningRow& row) {
  std::vector<Option> options;
  for (const Algorithm algorithm : kPreference) {
    if (IsModelled(input, row.collective, algorithm)) {
      Option option = BestOf(input, row.collective, algorithm, row.seconds_at);
      const Correction* measured = MeasuredIn(input.corrections, row, algorithm);
      option.visits = measured == nullptr ? 0 : measured->visits;
      options.push_back(option);
    }
  }
  return options;
}

// Of the options that count, the first of those that tie with the fastest.
template <typename Counts>
const Option* Fastest(const std::vector<Option>& options, Counts counts) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const Option& option : options) {
    fastest = counts(option) ? std::min(fastest, option.seconds) : fastest;
  }
  const auto found = std::find_if(options.begin(), options.end(), [&](const Option& option) {
    return counts(option) && option.seconds <= fastest * (1 + kTie);
  });
  return found == options.end() ? nullptr : &*found;
}

struct Decision {
  const Option* option = nullptr;
  bool is_trial = false;
};

Decision Decide(const std::vector<Option>& options) {
  const Option* best = Fastest(options, [](const Option& option) { return option.visits > 0; });
  if (best == nullptr) {
    return {Fastest(options, [](const Option&) { return true; })};
  }
  const auto is_near = [&](const Option& option) {
    return option.seconds <= best->seconds * kTryWithin;
  };
  std::uint32_t fewest = kVisits;
  for (const Option& option : options) {
    fewest = is_near(option) ? std::min(fewest, option.visits) : fewest;
  }
  if (fewest == kVisits || std::count_if(options.begin(), options.end(), is_near) == 1) {
    return {best};
  }
  return {Fastest(options,
                  [&](const Option& option) { return is_near(option) && option.visits == fewest; }),
          true};
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
  return std::string(Name(option.algorithm)) + " " + Text(option.seconds) +
         (option.visits > 0 ? " (measured)" : "");
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
  TuningRow row = {.collective = collective,
                   .bytes_begin = begin,
                   .bytes_end = end,
                   .seconds_at = ModelledAt(begin)};
  const std::vector<Option> options = OptionsFor(input, row);
  const auto [chosen, is_trial] = Decide(options);
  row.algorithm = chosen->algorithm;
  row.slice_bytes = chosen->slice_bytes;
  row.reason = std::string(is_trial ? "tries " : "") + Described(*chosen) + " at " +
               std::to_string(row.seconds_at) + " bytes among " + std::to_string(input.members) +
               "; instead:";
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

bool IsSameRow(const TuningTable& a, const TuningTable& b, std::size_t row) {
  const auto is_same = [](const TuningRow& x, const TuningRow& y) {
    return x.collective == y.collective && x.bytes_begin == y.bytes_begin &&
           x.algorithm == y.algorithm && x.slice_bytes == y.slice_bytes && x.seconds == y.seconds &&
           x.seconds_at == y.seconds_at && x.seconds_per_byte == y.seconds_per_byte;
  };
  return row < a.rows.size() && row < b.rows.size() && is_same(a.rows[row], b.rows[row]);
}

double FormulaSeconds(const MeasuredLinks& links, std::uint32_t members, const TuningRow& row) {
  return Formula(
      links, members, row.collective, {row.algorithm, row.slice_bytes, 0}, row.seconds_at);
}

const Correction* MeasuredIn(std::span<const Correction> corrections,
                             const TuningRow& row,
                             Algorithm algorithm) {
  const auto found =
      std::find_if(corrections.begin(), corrections.end(), [&](const Correction& known) {
        return known.collective == row.collective && known.algorithm == algorithm &&
               known.bytes == row.seconds_at;
      });
  return found == corrections.end() ? nullptr : &*found;
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
