// Catches what UCX would print to stdout: the causes behind its one-word statuses, for our errors
// and events.
#pragma once

#include <string>

namespace maypole::agent {

// While one lives, warnings and errors that UCX logs on this thread go to it. At any other time
// they go to stderr. Not nested.
class UcxLogCapture {
 public:
  UcxLogCapture();
  UcxLogCapture(const UcxLogCapture&) = delete;
  UcxLogCapture& operator=(const UcxLogCapture&) = delete;
  ~UcxLogCapture();

  // The lines so far, joined by "; "; bounded.
  const std::string& text() const { return text_; }

  // " (lines)", or nothing: for the end of a message.
  std::string Suffix() const { return text_.empty() ? "" : " (" + text_ + ")"; }

  void Append(const char* line);

 private:
  std::string text_;
};

// Routes the log of this process's UCX; once is enough.
void RouteUcxLog();

}  // namespace maypole::agent
