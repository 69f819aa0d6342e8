// A plan (collective/plan_cost.h) for a person, and as JSON. Pure.
#pragma once

#include <string>

#include "collective/plan_cost.h"

namespace maypole::cli {

std::string PlanText(const collective::PlanRequest& request, const collective::Plan& plan);
std::string PlanJson(const collective::Plan& plan);

}  // namespace maypole::cli
