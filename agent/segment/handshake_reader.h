// Packets that a stranger sent to the socket become checked values or a sentence that refuses them.
// Format: proto/handshake.h.
//
// Pure. Any bytes are legal input.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <variant>

#include "agent/engine/events.h"
#include "common/error_code.h"
#include "proto/handshake.h"

namespace maypole::agent {

// The first packet of a connection; `version` is this agent's, for the sentence. The session is
// left 0.
std::variant<ClientHello, Outcome> ReadHello(std::span<const std::byte> packet,
                                             std::string_view version);

using ClientRequest =
    std::variant<AllocateRequest, FreeRequest, ResultRequest, StatsRequest, Goodbye, Outcome>;

// Every later packet. An Outcome says why it is none of the others.
ClientRequest ReadRequest(std::span<const std::byte> packet);

}  // namespace maypole::agent
