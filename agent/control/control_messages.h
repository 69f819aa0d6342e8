// Between the plain structs of engine/events.h and the messages of coordinator.proto. Internal to
// this folder.
//
// Pure. What the coordinator sends is validated here: it is another process, perhaps of another
// release.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/control/coordinator_client.h"
#include "agent/engine/events.h"

namespace maypole::v1 {
class AgentMessage;
class CoordinatorMessage;
}  // namespace maypole::v1

namespace maypole::agent {

// Texts that are not well-formed UTF-8 or too long are cut to what is: Protocol Buffers would drop
// the whole stream for them.
v1::AgentMessage HelloMessage(const CoordinatorClientOptions& options,
                              const std::vector<EpochInfo>& epochs);
v1::AgentMessage ToMessage(const ControlMessage& message);
v1::AgentMessage ToMessage(const AgentReport& report);

// kInvalidArgument: a member or rank is missing, double or out of range, this agent (`self`) is not
// among the members, or the message is empty. A Welcome becomes CoordinatorLink{up}.
absl::StatusOr<ControlEvent> ToEvent(const v1::CoordinatorMessage& message,
                                     const CoordinatorClientOptions& self);

}  // namespace maypole::agent
