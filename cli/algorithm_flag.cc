#include "cli/algorithm_flag.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

namespace maypole::cli {

using collective::Algorithm;

std::string AlgorithmChoices() {
  std::string names(Name(Algorithm::kAuto));
  for (const Algorithm algorithm : collective::kAlgorithms) {
    absl::StrAppend(&names, ", ", std::string(Name(algorithm)));
  }
  return names;
}

absl::StatusOr<Algorithm> ParseAlgorithm(const std::string& text) {
  if (text == Name(Algorithm::kAuto)) {
    return Algorithm::kAuto;
  }
  const auto algorithm = collective::AlgorithmFromName(text);
  return algorithm ? absl::StatusOr<Algorithm>(*algorithm)
                   : absl::InvalidArgumentError(
                         absl::StrCat("\"", text, "\" is none of ", AlgorithmChoices()));
}

}  // namespace maypole::cli
