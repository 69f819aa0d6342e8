#include "cli/janitor.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

namespace maypole::cli {
namespace {

// One message: a process group, negative to forget it. Pipes keep writes of this size whole.
void Tell(int pipe, pid_t message) {
  // Only fails if the janitor was killed; then there is nobody to tell.
  (void)!write(pipe, &message, sizeof message);
}

// Lets go of everything but `pipe` (a terminal, or the reader of our output, must not wait for the
// janitor).
void Detach(int pipe) {
  setsid();
  prctl(PR_SET_NAME, "maypole-janitor");
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    signal(ignored, SIG_IGN);
  }
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) {
    dup2(null, fd);
  }
  close_range(3, static_cast<unsigned>(pipe) - 1, 0);
  close_range(static_cast<unsigned>(pipe) + 1, ~0U, 0);
}

[[noreturn]] void RunJanitor(int pipe, const std::string& folder) {
  Detach(pipe);
  std::set<pid_t> groups;
  pid_t message = 0;
  while (true) {
    const ssize_t got = read(pipe, &message, sizeof message);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got != sizeof message) {
      break;
    }
    if (message > 0) {
      groups.insert(message);
    } else {
      groups.erase(-message);
    }
  }
  for (const pid_t group : groups) {
    kill(-group, SIGKILL);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  _exit(0);
}

}  // namespace

absl::StatusOr<Janitor> Janitor::Start() {
  const char* parent = getenv("TMPDIR");
  std::string folder =
      absl::StrCat(parent != nullptr && *parent != '\0' ? parent : "/tmp", "/maypole.XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a folder ", folder, ": ", strerror(errno), "; set TMPDIR"));
  }
  int ends[2] = {-1, -1};
  const bool has_pipe = pipe2(ends, O_CLOEXEC) == 0;
  const pid_t pid = has_pipe ? fork() : -1;
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  if (pid == 0) {
    writer.Reset();
    RunJanitor(reader.get(), folder);
  }
  if (pid < 0) {
    const int error = errno;
    rmdir(folder.c_str());
    return absl::UnavailableError(absl::StrCat("cannot start another process: ", strerror(error)));
  }
  return Janitor(std::move(folder), std::move(writer), pid);
}

Janitor::~Janitor() {
  pipe_.Reset();
  if (pid_ > 0) {
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void Janitor::Watch(pid_t group) const {
  Tell(pipe_.get(), group);
}

void Janitor::Forget(pid_t group) const {
  Tell(pipe_.get(), -group);
}

}  // namespace maypole::cli
