// Elements that a schedule sends and receives, for tests.
#pragma once

#include "collective/schedule.h"
#include "collective/step_graph.h"

namespace maypole::collective {

struct Traffic {
  ElementCount sent = 0;
  ElementCount received = 0;

  friend bool operator==(const Traffic&, const Traffic&) = default;
};

inline Traffic TrafficOf(const Schedule& schedule) {
  Traffic traffic;
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::kSend) {
      traffic.sent += step.range.size();
    } else if (IsReceive(step.kind)) {
      traffic.received += step.range.size();
    }
  }
  return traffic;
}

}  // namespace maypole::collective
