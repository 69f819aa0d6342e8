// Memory to be shared with a client: a memfd that can neither shrink nor grow, so that no client
// can make the agent fault on it. A client can still punch holes into it; the pages then read as
// zeros, which hurts its own data only.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "common/mapped_region.h"
#include "common/unique_fd.h"

namespace maypole::agent {

struct SealedMemory {
  UniqueFd fd;          // to pass on, then to close
  MappedRegion region;  // zeroed; pages come when touched
};

// `bytes` > 0. `name` appears in /proc/PID/maps. Errors: kResourceExhausted with the kernel's
// reason.
absl::StatusOr<SealedMemory> CreateSealedMemory(const char* name, std::size_t bytes);

}  // namespace maypole::agent
