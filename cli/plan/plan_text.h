// Plans (collective/plan_cost.h) for a person, as JSON, and a sweep also as a picture. Pure.
#pragma once

#include <string>

#include "cli/plan/sweep.h"
#include "collective/plan_cost.h"

namespace maypole::cli {

std::string PlanText(const collective::PlanRequest& request, const collective::Plan& plan);
std::string PlanJson(const collective::Plan& plan);

// A line per point: the time of every algorithm, the recommended one, and the step if there is one.
std::string SweepText(const Sweep& sweep);

// {"sweep": option, "points": [{"value", "x", and what PlanJson has}]}.
std::string SweepJson(const Sweep& sweep);

// A line per algorithm but naive, and one for the recommended; with a step, what training waits for
// too.
std::string SweepSvg(const Sweep& sweep);

}  // namespace maypole::cli
