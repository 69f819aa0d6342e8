// The value of --algorithm, the same for `maypole bench` and `maypole plan`: "auto" or an
// algorithm's name. Pure.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "collective/schedule.h"

namespace maypole::cli {

// "auto, ring, ..."
std::string AlgorithmChoices();

// A refusal quotes the text and lists the choices; the caller adds the option's name.
absl::StatusOr<collective::Algorithm> ParseAlgorithm(const std::string& text);

}  // namespace maypole::cli
