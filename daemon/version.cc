#include "daemon/version.h"

namespace maypole::daemon {

std::string Version() {
  return MAYPOLE_VERSION;
}

}  // namespace maypole::daemon
