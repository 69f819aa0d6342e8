#include "cli/rank_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include "cli/daemon_logs.h"
#include "cli/line_splitter.h"
#include "common/time.h"

namespace maypole::cli {
namespace {

struct Output {
  Stream stream;
  UniqueFd pipe;
  LineSplitter lines;
};

struct RankProcess {
  std::uint32_t rank;
  ChildProcess process;
  std::array<Output, 2> outputs;
  bool ended = false;  // and everything that it printed is forwarded
};

void Say(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "maypole: %s\n", text.c_str());
}

TimePoint After(double seconds, TimePoint now = std::chrono::steady_clock::now()) {
  return now + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

class RankRun {
 public:
  RankRun(const RankRunOptions& options, const RankRunParts& parts, const LineSink& sink)
      : options_(options), parts_(parts), sink_(sink), logs_(parts.daemons) {}

  // Ends those that run, which are some only if not all could be started.
  ~RankRun() {
    std::vector<ChildProcess*> running;
    for (RankProcess& rank : ranks_) {
      running.push_back(&rank.process);
    }
    EndAll(running, 0);
    for (const ChildProcess* process : running) {
      parts_.janitor.Forget(process->pid());
    }
  }

  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  absl::Status Start(const std::vector<ChildOptions>& ranks);
  int Run();

 private:
  void Wait();
  void HandleStop();
  void HandleDaemons();
  void HandleRanks();
  void HandleLogs();
  void HandleDeadline();
  void Forward(RankProcess& rank, Output& output);
  void NoteFailure(int code);
  bool AnyRuns() const;

  const RankRunOptions options_;
  const RankRunParts parts_;
  const LineSink& sink_;
  std::vector<RankProcess> ranks_;  // those that still run
  std::size_t rank_count_ = 0;
  DaemonLogs logs_;
  bool warned_ = false;
  TimePoint look_at_ = kNever;  // when to say where to look
  std::set<pid_t> daemons_reported_;
  std::optional<int> code_;    // of the first failure
  std::string first_failure_;  // its rank and end; empty if we were told to stop before
  bool daemon_died_ = false;
  int next_signal_ = SIGTERM;  // what the ranks get at deadline_
  TimePoint deadline_ = kNever;
};

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError("out of file descriptors; raise the limit with ulimit -n");
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

absl::Status RankRun::Start(const std::vector<ChildOptions>& ranks) {
  rank_count_ = ranks.size();
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    auto out = MakePipe();
    auto err = MakePipe();
    if (!out.ok() || !err.ok()) {
      return out.ok() ? err.status() : out.status();
    }
    ChildOptions child = ranks[rank];
    child.stdout_fd = out->second.get();
    child.stderr_fd = err->second.get();
    absl::StatusOr<ChildProcess> process = ChildProcess::Start(child);
    if (!process.ok()) {
      return process.status();
    }
    parts_.janitor.Watch(process->pid());
    ranks_.push_back({rank,
                      *std::move(process),
                      {Output{Stream::kOut, std::move(out->first), {}},
                       Output{Stream::kErr, std::move(err->first), {}}}});
  }
  return absl::OkStatus();
}

int RankRun::Run() {
  while (!ranks_.empty()) {
    Wait();
    HandleStop();
    HandleDaemons();
    HandleRanks();
    HandleLogs();
    HandleDeadline();
  }
  // What the others said of it since may be long.
  if (!first_failure_.empty() && rank_count_ > 1) {
    Say("first failure: " + first_failure_);
  }
  return code_.value_or(daemon_died_ ? 1 : 0);
}

void RankRun::Wait() {
  std::vector<pollfd> waits = {{parts_.stop.fd(), POLLIN, 0}, {logs_.fd(), POLLIN, 0}};
  for (const RankProcess& rank : ranks_) {
    waits.push_back({rank.process.pidfd(), POLLIN, 0});
    for (const Output& output : rank.outputs) {
      waits.push_back({output.pipe.get(), POLLIN, 0});  // poll skips -1
    }
  }
  for (const Daemon& daemon : parts_.daemons) {
    if (!daemons_reported_.contains(daemon.process.pid())) {
      waits.push_back({daemon.process.pidfd(), POLLIN, 0});
    }
  }
  int limit = -1;
  if (const TimePoint next = std::min(deadline_, look_at_); next != kNever) {
    const auto left = next - std::chrono::steady_clock::now();
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    limit = static_cast<int>(std::max<std::int64_t>(0, milliseconds));
  }
  poll(waits.data(), waits.size(), limit);
}

void RankRun::HandleStop() {
  const std::optional<int> signal = parts_.stop.Take();
  if (!signal) {
    return;
  }
  NoteFailure(128 + *signal);
  // The first asks, the second insists.
  deadline_ = TimePoint::min();
}

void RankRun::HandleDaemons() {
  for (Daemon& daemon : parts_.daemons) {
    const std::optional<ExitStatus> ended = daemon.process.Poll();
    if (ended && daemons_reported_.insert(daemon.process.pid()).second) {
      daemon_died_ = true;
      Say(absl::StrCat(daemon.name,
                       " died with ",
                       ended->ToString(),
                       "; its last lines:\n",
                       TailOf(daemon.log)));
    }
  }
}

void RankRun::Forward(RankProcess& rank, Output& output) {
  std::array<char, 16384> bytes;
  const auto give = [&](std::string_view line) { sink_(rank.rank, output.stream, line); };
  while (output.pipe.valid()) {
    const ssize_t got = read(output.pipe.get(), bytes.data(), bytes.size());
    if (got > 0) {
      output.lines.Add({bytes.data(), static_cast<std::size_t>(got)}, give);
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && errno == EAGAIN) {
      return;
    } else {
      output.pipe.Reset();
    }
  }
}

void RankRun::HandleRanks() {
  for (RankProcess& rank : ranks_) {
    // Look for the end before reading: what was printed by then is in the pipe, and is read below.
    const std::optional<ExitStatus> ended = rank.process.Poll();
    for (Output& output : rank.outputs) {
      Forward(rank, output);
    }
    if (!ended) {
      continue;
    }
    for (Output& output : rank.outputs) {
      output.lines.Flush([&](std::string_view line) { sink_(rank.rank, output.stream, line); });
    }
    parts_.janitor.Forget(rank.process.pid());
    if (ended->code() != 0 && next_signal_ == SIGTERM) {
      Say(absl::StrCat("rank ", rank.rank, " ended with ", ended->ToString()));
    }
    if (ended->code() != 0) {
      if (!code_) {
        first_failure_ = absl::StrCat("rank ", rank.rank, ", ", ended->ToString());
      }
      NoteFailure(ended->code());
    }
    rank.ended = true;
  }
  // Not by polling again: a rank that has ended since would go unread and unreported.
  std::erase_if(ranks_, [](const RankProcess& rank) { return rank.ended; });
}

void RankRun::HandleLogs() {
  const TimePoint now = std::chrono::steady_clock::now();
  if (logs_.Forward(now) && !std::exchange(warned_, true) && !parts_.where_to_look.empty()) {
    look_at_ = After(options_.look_seconds, now);
  }
  if (now >= look_at_) {
    look_at_ = kNever;
    if (!code_) {
      Say(parts_.where_to_look);
    }
  }
}

void RankRun::NoteFailure(int code) {
  if (!code_) {
    code_ = code;
    deadline_ = After(options_.grace_seconds);
  }
}

void RankRun::HandleDeadline() {
  if (std::chrono::steady_clock::now() < deadline_) {
    return;
  }
  for (const RankProcess& rank : ranks_) {
    rank.process.Signal(next_signal_);
  }
  next_signal_ = SIGKILL;
  deadline_ = After(options_.kill_seconds);
}

}  // namespace

absl::StatusOr<int> RunRanks(const std::vector<ChildOptions>& ranks,
                             const RankRunOptions& options,
                             const RankRunParts& parts,
                             const LineSink& sink) {
  RankRun run(options, parts, sink);
  const absl::Status status = run.Start(ranks);
  if (!status.ok()) {
    return status;
  }
  return run.Run();
}

absl::StatusOr<int> CodeOrError(daemon::StopSignals& stop, const absl::Status& error) {
  const std::optional<int> signal = stop.Take();
  return signal ? absl::StatusOr<int>(128 + *signal) : error;
}

LineSink PrefixedOutput() {
  return [](std::uint32_t rank, Stream stream, std::string_view line) {
    FILE* file = stream == Stream::kOut ? stdout : stderr;
    std::fprintf(file, "[%u] %.*s\n", rank, static_cast<int>(line.size()), line.data());
    std::fflush(file);
  };
}

}  // namespace maypole::cli
