// Checks what a caller of maypole_all_reduce or maypole_barrier asks for.
//
// Pure. Errors: kInvalidArgument, naming the argument and its value.
#pragma once

#include <cstdint>

#include "client/include/maypole/maypole.h"
#include "client/src/op.h"
#include "common/error_code.h"

namespace maypole::client::internal {

// `options` may be null.
Outcome CheckAllReduce(void* data,
                       std::uint64_t count,
                       const maypole_all_reduce_options* options,
                       OpRequest& request);
// `name` may be null.
Outcome CheckBarrier(const char* name, double timeout, OpRequest& request);

}  // namespace maypole::client::internal
