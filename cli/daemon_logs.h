// The logs of a local cluster's daemons, read as they grow: a person who waits for the ranks should
// see what the daemons warn of, and not be flooded by it.
//
// Threads: confined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/line_splitter.h"
#include "cli/local_cluster.h"
#include "common/time.h"
#include "common/unique_fd.h"

namespace maypole::cli {

// What is worth seeing of a line, without the time and the program's name: "warning: no route".
// Empty for an info line. A line that is not daemon/log.h's, as of UCX, is given as it is.
std::string NewsOf(std::string_view line);

// Which news are shown: each once, as agents often say the same, and so many in a while. Pure.
class NewsLimit {
 public:
  static constexpr std::size_t kShownMax = 20;
  static constexpr Duration kWhile = std::chrono::seconds(10);

  enum class Verdict : std::uint8_t { kShow, kShowAsLast, kHide };

  Verdict Judge(const std::string& news, TimePoint now);

 private:
  std::set<std::string> shown_;  // in this while
  TimePoint end_{};              // of it
};

class DaemonLogs {
 public:
  // A log that cannot be read is left out.
  explicit DaemonLogs(std::span<const Daemon> daemons);

  // Readable when a log has grown; for poll(). -1 if the system cannot tell.
  int fd() const { return changes_.get(); }

  // Writes what is new to standard error, as "[agent 1] warning: ...". True if there was anything.
  bool Forward(TimePoint now);

 private:
  struct Log {
    std::string daemon;
    UniqueFd file;
    LineSplitter lines;
  };

  bool Show(const std::string& daemon, const std::string& news, TimePoint now);

  UniqueFd changes_;
  std::vector<Log> logs_;
  NewsLimit limit_;
};

}  // namespace maypole::cli
