#include "agent/transport/ucx/library_log.h"

#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include <ucs/debug/log_def.h>

namespace maypole::agent {
namespace {

constexpr std::size_t kTextBytesMax = 1024;

// UCX gives its handler no argument of ours.
thread_local UcxLogCapture* current_capture = nullptr;

ucs_log_func_rc_t HandleLine(const char*,
                             unsigned,
                             const char*,
                             ucs_log_level_t level,
                             const ucs_log_component_config_t*,
                             const char* format,
                             va_list arguments) {
  if (level < UCS_LOG_LEVEL_ERROR || level > UCS_LOG_LEVEL_DIAG) {
    return UCS_LOG_FUNC_RC_CONTINUE;  // dying words, or what somebody asked for by UCX_LOG_LEVEL
  }
  char line[512];
  va_list copy;
  va_copy(copy, arguments);
  std::vsnprintf(line, sizeof(line), format, copy);
  va_end(copy);
  if (current_capture != nullptr) {
    current_capture->Append(line);
  } else {
    std::fprintf(stderr, "ucx: %s\n", line);
  }
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

UcxLogCapture::UcxLogCapture() {
  current_capture = this;
}

UcxLogCapture::~UcxLogCapture() {
  current_capture = nullptr;
}

void UcxLogCapture::Append(const char* line) {
  if (text_.size() >= kTextBytesMax) {
    return;
  }
  if (!text_.empty()) {
    text_ += "; ";
  }
  text_ += line;
}

void RouteUcxLog() {
  static const bool routed = [] {
    ucs_log_push_handler(HandleLine);
    return true;
  }();
  static_cast<void>(routed);
}

}  // namespace maypole::agent
