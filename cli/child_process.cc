#include "cli/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <utility>

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

namespace maypole::cli {
namespace {

using Clock = std::chrono::steady_clock;

absl::Status ErrnoStatus(const std::string& what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(error)));
}

// What the child needs between fork and exec, prepared before: nothing may allocate there.
struct Prepared {
  explicit Prepared(const ChildOptions& options) : arguments(options.argv) {
    std::map<std::string, std::string> variables;
    const auto add = [&variables](const std::string& assignment) {
      variables[assignment.substr(0, assignment.find('='))] = assignment;
    };
    for (char** entry = environ; *entry != nullptr; ++entry) {
      add(*entry);
    }
    for (const std::string& name : options.without) {
      variables.erase(name);
    }
    std::for_each(options.environment.begin(), options.environment.end(), add);
    for (const auto& [name, assignment] : variables) {
      assignments.push_back(assignment);
    }
    for (std::string& argument : arguments) {
      argv.push_back(argument.data());
    }
    for (std::string& assignment : assignments) {
      envp.push_back(assignment.data());
    }
    argv.push_back(nullptr);
    envp.push_back(nullptr);
  }

  std::vector<std::string> arguments;
  std::vector<std::string> assignments;
  std::vector<char*> argv;
  std::vector<char*> envp;
};

// In the child. dup2 alone would leave one that has the number already to be closed by exec.
bool BecomeDescriptor(int fd, int number) {
  return fd == number ? fcntl(fd, F_SETFD, 0) == 0 : dup2(fd, number) == number;
}

// In the child. Returns only on failure, with errno set.
void BecomeProgram(const ChildOptions& options, const Prepared& prepared, pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
      sigprocmask(SIG_SETMASK, &none, nullptr) != 0) {
    return;
  }
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  if (getppid() != parent) {
    _exit(127);  // The parent died before the kernel knew of our wish to die with it.
  }
  if (options.net_namespace >= 0 && setns(options.net_namespace, CLONE_NEWNET) != 0) {
    return;
  }
  const int input =
      options.stdin_fd >= 0 ? options.stdin_fd : open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (!BecomeDescriptor(input, 0) ||
      (options.stdout_fd >= 0 && !BecomeDescriptor(options.stdout_fd, 1)) ||
      (options.stderr_fd >= 0 && !BecomeDescriptor(options.stderr_fd, 2)) ||
      (options.keep_fd >= 0 && fcntl(options.keep_fd, F_SETFD, 0) != 0)) {
    return;
  }
  execvpe(prepared.argv[0], prepared.argv.data(), prepared.envp.data());
}

}  // namespace

int ExitStatus::code() const {
  return WIFSIGNALED(wait_status_) ? 128 + WTERMSIG(wait_status_) : WEXITSTATUS(wait_status_);
}

std::string ExitStatus::ToString() const {
  if (WIFSIGNALED(wait_status_)) {
    const int signal = WTERMSIG(wait_status_);
    return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
  }
  return absl::StrCat("exit code ", WEXITSTATUS(wait_status_));
}

absl::StatusOr<ChildProcess> ChildProcess::Start(const ChildOptions& options) {
  const Prepared prepared(options);
  int report[2];  // Closed by a successful exec; else carries errno.
  if (pipe2(report, O_CLOEXEC) != 0) {
    return ErrnoStatus("cannot make a pipe", errno);
  }
  UniqueFd reader(report[0]);
  UniqueFd writer(report[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return ErrnoStatus("cannot start another process", errno);
  }
  if (pid == 0) {
    BecomeProgram(options, prepared, parent);
    const int error = errno;
    (void)!write(writer.get(), &error, sizeof error);
    _exit(127);
  }
  writer.Reset();
  // The child does the same; whoever is first, the group exists when we return.
  setpgid(pid, pid);
  ChildProcess child(pid, UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))));
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(reader.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof error) {
    return ErrnoStatus(absl::StrCat("cannot run ", options.argv[0]), error);
  }
  if (!child.pidfd_.valid()) {
    return absl::UnavailableError("this kernel has no pidfd_open (Linux 5.3 or newer is needed)");
  }
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      ended_(std::exchange(other.ended_, std::nullopt)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    Kill();
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    ended_ = std::exchange(other.ended_, std::nullopt);
  }
  return *this;
}

ChildProcess::~ChildProcess() {
  Kill();
}

void ChildProcess::Kill() {
  if (pid_ > 0 && !ended_) {
    Signal(SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
  }
  pid_ = -1;
}

void ChildProcess::Signal(int signal) const {
  if (pid_ > 0 && !ended_) {
    kill(-pid_, signal);
  }
}

std::optional<ExitStatus> ChildProcess::Poll() {
  if (pid_ <= 0 || ended_) {
    return ended_;
  }
  // Look first and reap last: while the leader is a zombie its group's number cannot be given to
  // anybody else, so the rest of the group can be ended safely.
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid == pid_) {
    kill(-pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    ended_ = ExitStatus(status);
  }
  return ended_;
}

std::optional<ExitStatus> ChildProcess::WaitFor(double seconds) {
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  while (!Poll()) {
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    if (left <= 0) {
      return std::nullopt;
    }
    pollfd wait = {pidfd(), POLLIN, 0};
    poll(&wait, 1, static_cast<int>(left * 1000) + 1);
  }
  return ended_;
}

absl::Status RunTool(std::vector<std::string> argv, const std::string& input, int net_namespace) {
  const std::string command = absl::StrJoin(argv, " ");
  UniqueFd in(memfd_create("input", MFD_CLOEXEC));
  UniqueFd out(memfd_create("output", MFD_CLOEXEC));
  if (!in.valid() || !out.valid() ||
      pwrite(in.get(), input.data(), input.size(), 0) != static_cast<ssize_t>(input.size())) {
    return ErrnoStatus("cannot hold a tool's input", errno);
  }
  ChildOptions options;
  options.argv = std::move(argv);
  options.stdin_fd = in.get();
  options.stdout_fd = out.get();
  options.stderr_fd = out.get();
  options.net_namespace = net_namespace;
  absl::StatusOr<ChildProcess> child = ChildProcess::Start(options);
  if (!child.ok()) {
    return child.status();
  }
  const std::optional<ExitStatus> ended = child->WaitFor(30);
  if (ended && ended->code() == 0) {
    return absl::OkStatus();
  }
  std::string printed(4096, '\0');
  printed.resize(static_cast<std::size_t>(
      std::max<ssize_t>(0, pread(out.get(), printed.data(), printed.size(), 0))));
  return absl::InternalError(absl::StrCat(
      command, ": ", ended ? ended->ToString() : "no end after 30 s", "\n", printed, input));
}

void EndAll(const std::vector<ChildProcess*>& children, double seconds) {
  for (const ChildProcess* child : children) {
    child->Signal(SIGTERM);
  }
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  for (ChildProcess* child : children) {
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    if (!child->WaitFor(std::max(0.0, left))) {
      child->Signal(SIGKILL);
      child->WaitFor(60);
    }
  }
}

}  // namespace maypole::cli
