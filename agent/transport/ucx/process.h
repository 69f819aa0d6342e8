// What UCX does to a process merely by being linked, undone.
#pragma once

namespace maypole::agent {

// Call first in main: libucs has by then installed handlers for SIGILL, SIGSEGV, SIGBUS, SIGFPE (a
// backtrace on stdout, then a wait for a debugger) and SIGHUP (a debug prompt). Gives these signals
// back, so that a crash ends the process with a core as usual; and takes UCX's log off stdout.
// Setting UCX_HANDLE_ERRORS here would be too late: it is read before main.
void ReclaimProcessFromUcx();

}  // namespace maypole::agent
