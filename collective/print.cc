#include "collective/print.h"

#include <iomanip>
#include <sstream>

namespace maypole::collective {
namespace {

void PrintAction(std::ostream& out, const Step& step) {
  switch (step.kind) {
    case StepKind::kSend:
      out << "send     " << Name(step.source) << step.range << " -> " << step.peer << " #"
          << step.ordinal;
      return;
    case StepKind::kReceive:
      out << "receive  " << step.peer << " #" << step.ordinal;
      break;
    case StepKind::kReceiveReduce:
      out << "reduce   " << step.peer << " #" << step.ordinal << " + " << Name(step.source)
          << step.range;
      break;
    case StepKind::kReduce:
      out << "reduce   " << Name(step.source) << step.range << " + " << Name(Buffer::kPartial)
          << step.range;
      break;
    case StepKind::kCopy:
      out << "copy     " << Name(step.source) << step.range;
      break;
  }
  out << " -> " << Name(step.target) << step.range;
}

void PrintTo(std::ostream& out, const Step& step) {
  PrintAction(out, step);
  const char* separator = "  after ";
  for (const StepIndex before : step.after) {
    if (before != kNoStep) {
      out << separator << before;
      separator = ", ";
    }
  }
}

void PrintTo(std::ostream& out, const Schedule& schedule) {
  out << Name(schedule.collective) << ' ' << Name(schedule.algorithm) << ": member "
      << schedule.self << " of " << schedule.members << ", " << schedule.elements << " elements, "
      << schedule.steps.size() << " steps\n";
  for (std::size_t index = 0; index < schedule.steps.size(); ++index) {
    out << std::setw(4) << index << "  ";
    PrintTo(out, schedule.steps[index]);
    out << '\n';
  }
}

}  // namespace

std::string_view Name(Buffer buffer) {
  switch (buffer) {
    case Buffer::kInput:
      return "input";
    case Buffer::kPartial:
      return "partial";
    case Buffer::kResult:
      return "result";
  }
  return "unknown";
}

std::string Print(const Step& step) {
  std::ostringstream out;
  PrintTo(out, step);
  return out.str();
}

std::string Print(const Schedule& schedule) {
  std::ostringstream out;
  PrintTo(out, schedule);
  return out.str();
}

std::string Print(std::span<const Schedule> schedules) {
  std::ostringstream out;
  const char* separator = "";
  for (const Schedule& schedule : schedules) {
    out << separator;
    PrintTo(out, schedule);
    separator = "\n";
  }
  return out.str();
}

}  // namespace maypole::collective
