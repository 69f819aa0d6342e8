// What the kernel permits a daemon (getrlimit).
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace maypole::daemon {

// Takes all open files that the hard limit permits: the soft one is low for the sake of programs
// that use select(), which none of ours does. Errors: of CheckAddressSpace.
absl::Status TakeWhatIsPermitted();

// kResourceExhausted if that is less than threads need: gRPC does not survive that it can start
// none.
absl::Status CheckAddressSpace(std::uint64_t permitted_bytes);

}  // namespace maypole::daemon
