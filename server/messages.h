// Between the coordinator's plain structs (events.h, membership.h) and coordinator.proto. Internal
// to this folder.
//
// Pure. Texts are cut to what a message may hold; values are judged by Membership.
#pragma once

#include <optional>

#include "server/events.h"
#include "server/membership.h"

namespace maypole::v1 {
class AgentMessage;
class CoordinatorMessage;
class Status;
}  // namespace maypole::v1

namespace maypole::server {

// Empty for a report (kept by the service for `status`) and for a message of a kind that this
// release does not know.
std::optional<Event> ToEvent(const v1::AgentMessage& message, ConnectionId connection);

// An action that speaks to an agent.
struct Outgoing {
  ConnectionId connection = 0;
  bool is_last = false;  // the stream ends after it
};

// Fills `message` with what `action` sends; empty if it sends nothing (LogLine, CloseConnection).
std::optional<Outgoing> ToMessage(const Action& action,
                                  const std::string& version,
                                  v1::CoordinatorMessage& message);

// Everything but version, uptime and the nodes' reports.
void FillStatus(const Snapshot& snapshot, v1::Status& status);

}  // namespace maypole::server
