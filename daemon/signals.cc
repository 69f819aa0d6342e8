#include "daemon/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace maypole::daemon {

absl::StatusOr<StopSignals> StopSignals::Create() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (int error = pthread_sigmask(SIG_BLOCK, &signals, nullptr); error != 0) {
    return absl::InternalError(std::string("cannot block signals: ") + std::strerror(error));
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // memory beyond RLIMIT_FSIZE: ftruncate fails with EFBIG instead
  UniqueFd fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) {
    return absl::InternalError(std::string("cannot make a signalfd: ") + std::strerror(errno));
  }
  return StopSignals(std::move(fd));
}

bool StopSignals::IsPending() const {
  pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) > 0;
}

std::optional<int> StopSignals::Take() {
  signalfd_siginfo info;
  if (read(fd_.get(), &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

int StopSignals::Wait() {
  while (true) {
    if (std::optional<int> number = Take()) {
      return *number;
    }
    pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    poll(&entry, 1, -1);
  }
}

}  // namespace maypole::daemon
