#include "daemon/ports_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace maypole::daemon {

absl::Status WritePortsFile(const std::string& path,
                            const std::map<std::string, std::uint16_t>& ports) {
  if (path.empty()) {
    return absl::OkStatus();
  }

  // A rename would replace a device node as readily as an old file.
  struct stat there {};

  if (lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return absl::UnavailableError("--ports-file: cannot write \"" + path +
                                  "\": it exists and is no regular file");
  }
  std::string text;
  for (const auto& [name, port] : ports) {
    text += (text.empty() ? "{\"" : ",\"") + name + "\":" + std::to_string(port);
  }
  const std::string draft = path + "." + std::to_string(getpid());
  std::ofstream file(draft);
  file << text << "}\n";
  file.close();
  if (!file || std::rename(draft.c_str(), path.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    std::remove(draft.c_str());
    return absl::UnavailableError("--ports-file: cannot write \"" + path + "\": " + reason);
  }
  return absl::OkStatus();
}

}  // namespace maypole::daemon
