// Many plans that differ in one option. Pure.
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "cli/plan/plan_flags.h"
#include "collective/plan_cost.h"

namespace maypole::cli {

// One of the requests of a sweep: `value` as a person would write it for the swept option.
struct SweepPoint {
  double x = 0;  // ranks, bytes or bits per second
  std::string value;
  collective::PlanRequest request;
};

struct Sweep {
  std::string option;  // "ranks", "bytes" or "bandwidth"
  std::vector<SweepPoint> points;
};

// Of flags.sweep: "ranks=8..1024" doubles from the first to the last, "bytes=1MiB,25MiB" lists.
absl::StatusOr<Sweep> SweepOf(const PlanFlags& flags);

}  // namespace maypole::cli
