// Measured links, levels and tuning tables as text for a person. Pure.
#pragma once

#include <string>

namespace maypole::v1 {
class JobStatus;
class Status;
}  // namespace maypole::v1

namespace maypole::cli {

// Empty if no link is measured.
std::string LinksText(const v1::Status& status);

// Levels and tuning table of a job, indented; neighbouring rows that choose alike are one line.
std::string TuningText(const v1::JobStatus& job);

}  // namespace maypole::cli
