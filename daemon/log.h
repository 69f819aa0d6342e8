// What a person should read, to standard error: one line each, with time, level and the process's
// name.
//
// A line that nobody takes (a full pipe) is dropped and counted: whoever reads the log must not be
// able to stop the daemon. Lines are cut at 4,096 bytes, which a pipe that takes any takes whole.
//
// Threads: any, after InitLog. Control characters (texts of other machines end up here) are printed
// as '?'.
#pragma once

#include <string>

namespace maypole::daemon {

class Options;

enum class LogLevel { kInfo, kWarning, kError };

// Declares --log-level.
void AddLogLevel(Options& options, std::string* target);

// The level of a text that AddLogLevel let pass: "info", "warning", "error".
LogLevel LogLevelOf(const std::string& text);

// Once per process, before the first line. Lines below `level` are dropped.
void InitLog(LogLevel level, const std::string& name);

void LogInfo(const std::string& text);
void LogWarning(const std::string& text);
void LogError(const std::string& text);

}  // namespace maypole::daemon
