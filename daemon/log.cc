#include "daemon/log.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "daemon/options.h"

namespace maypole::daemon {
namespace {

// Never waits.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (dropped_ > 0) {
      const std::string text = std::to_string(dropped_) + " lines were dropped: nobody read them";
      if (!Write({message.time, {}, message.logger_name, spdlog::level::warn, text})) {
        ++dropped_;
        return;
      }
      dropped_ = 0;
    }
    dropped_ += Write(message) ? 0 : 1;
  }

  void flush_() override {}

  bool Write(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (line.size() > PIPE_BUF) {
      line.resize(PIPE_BUF);
      line[PIPE_BUF - 1] = '\n';
    }
    const ssize_t sent =
        ::send(STDERR_FILENO, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0 || errno != ENOTSOCK) {
      return sent >= 0;
    }
    pollfd ready{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    return ::poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0 &&
           ::write(STDERR_FILENO, line.data(), line.size()) >= 0;
  }

  std::uint64_t dropped_ = 0;
};

spdlog::level::level_enum LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

void Log(spdlog::level::level_enum level, std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  spdlog::log(level, "{}", text);
}

}  // namespace

void AddLogLevel(Options& options, std::string* target) {
  options.Choice("log-level", {"info", "warning", "error"}, target, "Least level that is logged");
}

LogLevel LogLevelOf(const std::string& text) {
  if (text == "error") {
    return LogLevel::kError;
  }
  return text == "warning" ? LogLevel::kWarning : LogLevel::kInfo;
}

void InitLog(LogLevel level, const std::string& name) {
  auto logger = std::make_shared<spdlog::logger>(name, std::make_shared<StderrSink>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %n: %v");
  logger->set_level(LevelOf(level));
  spdlog::set_default_logger(std::move(logger));
}

void LogInfo(const std::string& text) {
  Log(spdlog::level::info, text);
}

void LogWarning(const std::string& text) {
  Log(spdlog::level::warn, text);
}

void LogError(const std::string& text) {
  Log(spdlog::level::err, text);
}

}  // namespace maypole::daemon
