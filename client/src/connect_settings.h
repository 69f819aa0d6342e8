// Who this rank is and where its agent listens: from the caller's options, else from the
// environment.
//
// Pure but for ResolveConnectSettings' look at the environment, which comes as a function.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "client/include/maypole/maypole.h"
#include "common/error_code.h"
#include "common/time.h"

namespace maypole::client::internal {

struct ConnectSettings {
  std::string socket;
  std::string job;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  Duration timeout{0};
  bool deterministic = false;
};

// Returns null for a variable that is not set.
using Environment = std::function<const char*(const char* name)>;

// `options` may be null. Errors: kInvalidArgument, naming option or variable and its value.
Outcome ResolveConnectSettings(const maypole_connect_options* options,
                               const Environment& environment,
                               ConnectSettings& settings);

}  // namespace maypole::client::internal
