// The release that this binary belongs to, e.g. "0.1.0".
#pragma once

#include <string>

namespace maypole::daemon {

std::string Version();

}  // namespace maypole::daemon
