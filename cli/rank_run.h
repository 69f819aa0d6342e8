// Runs one process per rank to its end: forwards what they print, line by line, and ends all of
// them when one fails or when we are told to stop.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "cli/child_process.h"
#include "cli/janitor.h"
#include "cli/local_cluster.h"
#include "daemon/signals.h"

namespace maypole::cli {

enum class Stream { kOut, kErr };

using LineSink = std::function<void(std::uint32_t rank, Stream stream, std::string_view line)>;

struct RankRunOptions {
  // Between the first failure of a rank and the end of the others: time to see the failure and say
  // so.
  double grace_seconds = 10;
  // Between the request to end (SIGTERM) and SIGKILL.
  double kill_seconds = 5;
  // Between the first warning of a daemon and where to look: a warning of a failure needs no look.
  double look_seconds = 1;
};

struct RankRunParts {
  const Janitor& janitor;
  daemon::StopSignals& stop;
  std::span<Daemon> daemons;  // watched meanwhile
  std::string where_to_look;  // said once, if one of them warns and no rank fails
};

// Starts `ranks` (their output goes to `sink`, the daemons' warnings to standard error) and returns
// when all have ended: 0, or the code of the rank that failed first, which is named last of all on
// standard error; 1 if only a daemon died; 128 + signal if we were told to stop.
absl::StatusOr<int> RunRanks(const std::vector<ChildOptions>& ranks,
                             const RankRunOptions& options,
                             const RankRunParts& parts,
                             const LineSink& sink);

// Of a command that has not come to run ranks, because of `error` or because it was told to stop:
// 128 + signal then.
absl::StatusOr<int> CodeOrError(daemon::StopSignals& stop, const absl::Status& error);

// A sink that writes "[rank] line" to our own standard output and error.
LineSink PrefixedOutput();

}  // namespace maypole::cli
