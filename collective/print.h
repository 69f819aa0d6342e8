// Schedules as text: for golden files, logs and documents. One line per step; equal schedules print
// equally.
//
//   all_reduce ring: member 0 of 2, 3 elements, 4 steps
//      0  send     input[0,2) -> 1 #0
//      1  reduce   1 #0 + input[2,3) -> result[2,3)
//      2  send     result[2,3) -> 1 #1  after 1
//      3  receive  1 #1 -> result[0,2)
//
// A bare number is a member, "#" its message's ordinal, "after" the steps that come first.
#pragma once

#include <span>
#include <string>

#include "collective/schedule.h"

namespace maypole::collective {

std::string Print(const Schedule& schedule);
std::string Print(std::span<const Schedule> schedules);

// Without index and without a line break.
std::string Print(const Step& step);

std::string_view Name(Buffer buffer);

}  // namespace maypole::collective
