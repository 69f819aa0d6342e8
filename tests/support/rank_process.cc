#include "tests/support/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <stdexcept>
#include <utility>

namespace maypole::test {
namespace {

constexpr int kSilenceMs = 10'000;

}  // namespace

RankProcess::RankProcess(const std::function<void(const Say& say)>& body) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw std::runtime_error("cannot make a pipe");
  }
  lines_.Reset(ends[0]);
  const UniqueFd writer(ends[1]);
  pid_ = fork();
  if (pid_ < 0) {
    throw std::runtime_error("cannot fork");
  }
  if (pid_ > 0) {
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Say say = [&](const std::string& line) {
    const std::string text = line + "\n";
    (void)!write(writer.get(), text.data(), text.size());
  };
  try {
    body(say);
  } catch (const std::exception& error) {
    say(std::string("error: ") + error.what());
  }
  _exit(0);
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      lines_(std::move(other.lines_)),
      heard_(std::move(other.heard_)) {}

RankProcess::~RankProcess() {
  Kill();
}

void RankProcess::Kill() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

std::string RankProcess::Listen() {
  while (heard_.find('\n') == std::string::npos) {
    pollfd wait = {lines_.get(), POLLIN, 0};
    std::array<char, 4096> text;
    const ssize_t got =
        poll(&wait, 1, kSilenceMs) > 0 ? read(lines_.get(), text.data(), text.size()) : ssize_t{0};
    if (got <= 0) {
      return "";
    }
    heard_.append(text.data(), static_cast<std::size_t>(got));
  }
  const std::size_t end = heard_.find('\n');
  std::string line = heard_.substr(0, end);
  heard_.erase(0, end + 1);
  return line;
}

}  // namespace maypole::test
