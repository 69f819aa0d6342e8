// From an algorithm's name to its schedule.
#pragma once

#include <vector>

#include "collective/schedule.h"

namespace maypole::collective {

// `algorithm` is not kAuto (select.h decides that), one that the collective has (IsAvailable), and
// kHierarchical only where HierarchyProblem(shape) is empty. A shape without elements has no steps.
Schedule MakeSchedule(Algorithm algorithm, const Shape& shape);

// The schedules of all members, for the verifier, the simulator and people; shape.self is ignored.
std::vector<Schedule> MakeSchedules(Algorithm algorithm, const Shape& shape);

}  // namespace maypole::collective
