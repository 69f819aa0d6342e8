#include "daemon/process_limits.h"

#include <sys/resource.h>

#include <string>

namespace maypole::daemon {
namespace {

// Measured: an agent attaches with 800 MiB, and does not with 600.
constexpr std::uint64_t kAddressSpaceMin = std::uint64_t{1} << 30;

}  // namespace

absl::Status TakeWhatIsPermitted() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  return getrlimit(RLIMIT_AS, &limit) == 0 ? CheckAddressSpace(limit.rlim_cur) : absl::OkStatus();
}

absl::Status CheckAddressSpace(std::uint64_t permitted_bytes) {
  if (permitted_bytes >= kAddressSpaceMin) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      "the address space of this process is limited to " + std::to_string(permitted_bytes >> 20) +
      " MiB (ulimit -v), and a daemon needs " + std::to_string(kAddressSpaceMin >> 20) +
      " MiB and what it shares with its clients: raise the limit, and bound its memory by a "
      "cgroup");
}

}  // namespace maypole::daemon
