// Tells others (`maypole local`, tests) on which ports a daemon listens when the operating system
// chose them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"

namespace maypole::daemon {

// Writes {"grpc":7700,"http":7701} to `path`. The file appears complete or not at all: it is
// renamed into place, over an older regular file but over nothing else. An empty path does nothing.
// Errors: kUnavailable, naming --ports-file, the path and the kernel's reason.
absl::Status WritePortsFile(const std::string& path,
                            const std::map<std::string, std::uint16_t>& ports);

}  // namespace maypole::daemon
