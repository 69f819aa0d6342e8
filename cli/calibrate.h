// Links for a plan from what a coordinator knows. Pure.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "collective/cost.h"
#include "proto/coordinator.pb.h"

namespace maypole::cli {

struct Calibration {
  collective::LinkModel link;
  std::string summary;  // for a person: how many links, and the slowest of them
};

// The medians of all measured links; refused if none is.
absl::StatusOr<Calibration> CalibrationFrom(const v1::Status& status);

}  // namespace maypole::cli
