// Tuning tables and levels as messages of coordinator.proto, for both daemons.
//
// Pure. What is read was written by another process: names that do not exist, ranges that are
// empty, out of order or overlap, and times below 0 are refused (kInvalidArgument, with the value).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "collective/schedule.h"
#include "collective/tuning.h"

namespace maypole::v1 {
class Epoch;
class JobStatus;
class TuningTable;
}  // namespace maypole::v1

namespace maypole {

// What is read may have so many.
inline constexpr int kTuningRowsMax = 4096;

void FillTuning(const collective::TuningTable& tuning, v1::TuningTable& message);
absl::StatusOr<collective::TuningTable> ReadTuning(const v1::TuningTable& message);

void FillLevels(const std::vector<collective::Level>& levels, v1::Epoch& epoch);
void FillLevels(const std::vector<collective::Level>& levels, v1::JobStatus& job);
// Levels of all the epoch's members, or none.
absl::StatusOr<std::vector<collective::Level>> ReadLevels(const v1::Epoch& epoch);

}  // namespace maypole
