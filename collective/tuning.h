// Which algorithm and slice size an op of which size uses, what it should take, and why.
//
// Pure: equal costs give equal tables. The coordinator makes one table per job from measured links
// and measured ops (server/membership.h) and publishes it; the agents only look things up
// (select.h). A row covers at most one octave of sizes, so that what is learned about one size
// corrects the sizes near it and no others.
//
// Formulas know neither processors nor switches. So where ops are measured, measurement decides:
// once the time of a row's algorithm is known, all whose times come near it are tried in turn,
// several times over, as a machine is not equally fast at all times; the fastest stays.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/cost.h"
#include "collective/schedule.h"

namespace maypole::collective {

inline constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

struct TuningRow {
  Collective collective = Collective::kAllReduce;
  std::uint64_t bytes_begin = 0;  // of the tensor, in [begin, end)
  std::uint64_t bytes_end = kNoLimit;
  Algorithm algorithm = Algorithm::kRing;
  std::uint64_t slice_bytes = 0;  // 0: as the agents are set
  double seconds = 0;             // predicted at `seconds_at`; 0: nothing is predicted
  std::uint64_t seconds_at = 0;
  double seconds_per_byte = 0;  // beyond `seconds_at`, inside the row
  bool is_rule = false;         // of the operator, not of the model
  std::string reason;           // for a person

  // 0 if nothing is predicted.
  double SecondsFor(std::uint64_t bytes) const;

  friend bool operator==(const TuningRow&, const TuningRow&) = default;
};

struct TuningTable {
  std::uint32_t version = 0;    // within a job; only grows
  std::vector<TuningRow> rows;  // by collective, then ascending, without overlap

  // Null if no row covers it: then select.h has a rule of its own.
  const TuningRow* Find(Collective collective, std::uint64_t bytes) const;

  friend bool operator==(const TuningTable&, const TuningTable&) = default;
};

// What was measured of a row in one table counts for the row of that number in the other.
bool IsSameRow(const TuningTable& a, const TuningTable& b, std::size_t row);

// What the operator wants for [begin, end) whatever the model says.
struct TuningRule {
  Collective collective = Collective::kAllReduce;
  std::uint64_t bytes_begin = 0;
  std::uint64_t bytes_end = kNoLimit;
  Algorithm algorithm = Algorithm::kRing;
  std::uint64_t slice_bytes = 0;  // 0: not said
  std::string origin;             // "rules.toml, line 3"
};

// What measurement taught: an algorithm takes `factor` times as long as the formula says, for sizes
// from half of `bytes` to twice as many. Where a row is modelled at just `bytes`, it is measured.
struct Correction {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  std::uint64_t bytes = 0;
  double factor = 1;
  std::uint32_t visits = 1;  // how often it was measured; `factor` is the least
};

struct MeasuredLinks {
  LinkModel ring;                  // the worst link between neighbours in the ring
  LinkModel any;                   // the worst between any two members
  std::vector<LevelModel> levels;  // of the job's hierarchy; empty if it has none
};

struct TuningInput {
  std::uint32_t members = 1;           // > 0
  std::optional<MeasuredLinks> links;  // absent: only rules give rows
  bool has_levels = false;             // the members can run kHierarchical
  std::span<const TuningRule> rules = {};
  std::span<const Correction> corrections = {};
};

// Of algorithms whose predicted times differ by less than kTie, the first of these wins: the one
// that stresses a network least (the model does not know direct's incast). Naive is only there to
// be compared with.
inline constexpr double kTie = 0.03;
inline constexpr Algorithm kPreference[] = {Algorithm::kRing,
                                            Algorithm::kHalvingDoubling,
                                            Algorithm::kDoubleTree,
                                            Algorithm::kHierarchical,
                                            Algorithm::kTree,
                                            Algorithm::kDirect};
// Of a row that is measured, algorithms are tried whose times, predicted or measured, are at most
// so many times the best one measured.
inline constexpr double kTryWithin = 1.5;
inline constexpr std::uint32_t kVisits = 3;

// Rules first, the model in their gaps. A rule for kHierarchical counts only with levels.
TuningTable MakeTuningTable(const TuningInput& input);

// For links that are all of one kind.
TuningTable MakeTuningTable(std::uint32_t members,
                            LinkModel link,
                            std::span<const LevelModel> levels = {});

// What the formula says for a row at `seconds_at`, whatever was learned. The row predicts
// something.
double FormulaSeconds(const MeasuredLinks& links, std::uint32_t members, const TuningRow& row);

// The correction that was measured in a row like this, for an algorithm; null if there is none.
const Correction* MeasuredIn(std::span<const Correction> corrections,
                             const TuningRow& row,
                             Algorithm algorithm);

}  // namespace maypole::collective
