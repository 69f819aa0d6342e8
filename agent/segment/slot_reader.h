// A slot that a client filled becomes a Submission, or a sentence that names the wrong value.
//
// Pure. `request` is a copy in memory of our own; any bytes are legal input.
#pragma once

#include <cstdint>
#include <variant>

#include "absl/functional/function_ref.h"
#include "agent/engine/events.h"
#include "agent/memory/buffer.h"
#include "common/error_code.h"
#include "proto/segment_layout.h"

namespace maypole::agent {

// A data segment of the session; address null if there is none of that number.
using FindSegment = absl::FunctionRef<BufferView(std::uint32_t segment)>;

// Session and slot are left 0. Counts are copied out of their segment. What depends on the job, the
// core checks: ranks, and whether there are as many counts. Errors: kInvalidArgument.
std::variant<Submission, Outcome> ReadSlot(const SlotRequest& request, FindSegment find);

}  // namespace maypole::agent
