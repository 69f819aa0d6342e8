#include "daemon/log.h"

#include <algorithm>
#include <memory>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "daemon/options.h"

namespace maypole::daemon {
namespace {

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
  auto logger =
      std::make_shared<spdlog::logger>(name, std::make_shared<spdlog::sinks::stderr_sink_mt>());
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
