// Short ways to make an Outcome. The client throws nothing and links nothing, so its functions
// return an Outcome and fill a reference.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "common/error_code.h"

namespace maypole::client::internal {

inline Outcome Failure(ErrorCode code, std::string text, std::string culprits = {}) {
  return {code, std::move(text), std::move(culprits)};
}

inline Outcome InvalidArgument(std::string text) {
  return Failure(ErrorCode::kInvalidArgument, std::move(text));
}

inline std::string ErrnoText(int error) {
  return std::strerror(error);
}

}  // namespace maypole::client::internal
