// The version of this library, from the build.
#pragma once

namespace maypole::client::internal {

inline constexpr const char* kVersion = MAYPOLE_VERSION;

}  // namespace maypole::client::internal
