// UCX's listening socket, reached behind its back: UCX binds without SO_REUSEADDR, so that after
// the end of an agent its fixed port would stay taken by connections in TIME_WAIT, for a minute,
// and the agent could not come back.
//
// Found through /proc/self/fd.
#pragma once

#include <cstdint>

namespace maypole::agent {

// Connections accepted on `port` from now on end by a reset, also when the process is killed: no
// TIME_WAIT, and the peer notices at once. (An accepted socket inherits SO_LINGER from its
// listener.)
void ResetConnectionsOnClose(std::uint16_t port);

// A reset throws away what has not left yet: waits until that is nothing, 100 ms at most.
void AwaitSentBytes(std::uint16_t port);

}  // namespace maypole::agent
