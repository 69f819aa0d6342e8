// The operator's rules for algorithms and slice sizes: a TOML file (docs/algorithms.md shows one).
//
//   [[rule]]
//   collective = "all_reduce"
//   from = "64KiB"           # the first size that it counts for; without it 0B
//   below = "1MiB"           # the first that it does not; without it no limit
//   algorithm = "tree"
//   slice = "128KiB"         # optional
//
// The .cc is the only file that knows the TOML library.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collective/tuning.h"

namespace maypole::server {

// So many rules, each with two borders, and the rows of the model make a table that agents take.
inline constexpr std::size_t kRulesMax = 1024;

// Errors: kInvalidArgument, with file, line, value and the allowed form: a file that is no TOML,
// keys and names that do not exist, sizes without or with a wrong unit, ranges that are empty or
// overlap, more than kRulesMax of them. `name` of the file, for messages.
absl::StatusOr<std::vector<collective::TuningRule>> ParseRules(const std::string& text,
                                                               const std::string& name);

// kNotFound if the file cannot be read.
absl::StatusOr<std::vector<collective::TuningRule>> ReadRules(const std::string& path);

}  // namespace maypole::server
