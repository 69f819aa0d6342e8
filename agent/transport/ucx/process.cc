#include "agent/transport/ucx/process.h"

#include <csignal>

#include <ucs/debug/debug.h>

#include "agent/transport/ucx/library_log.h"

namespace maypole::agent {

void ReclaimProcessFromUcx() {
  for (const int signal_number : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) {
    ucs_debug_disable_signal(signal_number);
  }
  // Not among those that ucs_debug_disable_signal knows.
  std::signal(SIGHUP, SIG_DFL);
  RouteUcxLog();
}

}  // namespace maypole::agent
