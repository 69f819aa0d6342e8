#include "cli/daemon_logs.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace maypole::cli {
namespace {

// The text up to the next space, which goes with it.
std::string_view TakeWord(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

std::string NewsOf(std::string_view line) {
  std::string_view rest = line;
  TakeWord(rest);  // the time
  const std::string_view level = TakeWord(rest);
  const std::string_view program = TakeWord(rest);
  const bool is_ours = program.starts_with("maypole-") && program.ends_with(':');
  if (!is_ours) {
    return std::string(line);
  }
  return level == "info" ? std::string() : std::string(level) + ": " + std::string(rest);
}

NewsLimit::Verdict NewsLimit::Judge(const std::string& news, TimePoint now) {
  if (now >= end_) {
    shown_.clear();
    end_ = now + kWhile;
  }
  if (shown_.size() == kShownMax || !shown_.insert(news).second) {
    return Verdict::kHide;
  }
  return shown_.size() == kShownMax ? Verdict::kShowAsLast : Verdict::kShow;
}

DaemonLogs::DaemonLogs(std::span<const Daemon> daemons)
    : changes_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  for (const Daemon& daemon : daemons) {
    UniqueFd file(open(daemon.log.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.valid()) {
      inotify_add_watch(changes_.get(), daemon.log.c_str(), IN_MODIFY);
      logs_.push_back({daemon.name, std::move(file), {}});
    }
  }
}

bool DaemonLogs::Forward(TimePoint now) {
  std::array<char, 16384> bytes;
  while (read(changes_.get(), bytes.data(), bytes.size()) > 0) {
  }
  bool shown = false;
  for (Log& log : logs_) {
    ssize_t got = 0;
    while ((got = read(log.file.get(), bytes.data(), bytes.size())) > 0) {
      log.lines.Add({bytes.data(), static_cast<std::size_t>(got)},
                    [&](std::string_view line) { shown |= Show(log.daemon, NewsOf(line), now); });
    }
  }
  return shown;
}

bool DaemonLogs::Show(const std::string& daemon, const std::string& news, TimePoint now) {
  const NewsLimit::Verdict verdict =
      news.empty() ? NewsLimit::Verdict::kHide : limit_.Judge(news, now);
  if (verdict == NewsLimit::Verdict::kHide) {
    return false;
  }
  std::fprintf(stderr, "[%s] %s\n", daemon.c_str(), news.c_str());
  if (verdict == NewsLimit::Verdict::kShowAsLast) {
    std::fprintf(
        stderr,
        "maypole: the daemons warn of much; what follows within %s is in their logs only\n",
        SecondsText(NewsLimit::kWhile).c_str());
  }
  return true;
}

}  // namespace maypole::cli
