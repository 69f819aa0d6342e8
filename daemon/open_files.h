// The limit of open files.
#pragma once

namespace maypole::daemon {

// Takes all that the hard limit permits: the soft one is low for the sake of programs that use
// select(), which none of ours does. What cannot be had is left as it is.
void RaiseOpenFilesLimit();

}  // namespace maypole::daemon
