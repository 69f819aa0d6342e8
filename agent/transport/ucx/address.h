// The bytes by which an agent is found: UCX's own worker address in an envelope that is checked
// first, because UCX does not survive a damaged one.
//
//   offset 0  u32 magic "MAYU"  |  4  u16 version  |  6  u16 reserved (0)  |  8  u64 FNV-1a of the
//   bytes that follow  |  16  UCX's bytes
//
// Little endian. Against accidents, not against forgers: addresses come from the coordinator, over
// its authenticated channel.
//
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace maypole::agent {

std::string WrapUcxAddress(std::string_view worker_address);

// UCX's own bytes. Errors: kInvalidArgument, naming what is wrong with `address`.
absl::StatusOr<std::string> UnwrapUcxAddress(std::string_view address);

}  // namespace maypole::agent
