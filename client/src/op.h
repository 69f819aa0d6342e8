// One op in flight, as its submitter holds it.
//
// Threads: one at a time. Ownership: keeps the session's bookkeeping (not its memory) alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/error_code.h"
#include "common/time.h"

namespace maypole::client::internal {

class Session;

struct Op {
  std::shared_ptr<Session> session;
  std::string name;  // for messages: all_reduce "layer1"
  std::uint32_t slot = 0;
  std::uint64_t bytes = 0;      // of the tensor
  void* user_memory = nullptr;  // staged: where the result goes
  std::byte* staged = nullptr;  // staged: the buffer in session memory
  std::byte* pinned = nullptr;  // in place: the block that must not be freed meanwhile
  bool shared_result = false;
  TimePoint give_up = kNever;  // the agent should have ended it long before
  bool ended = false;          // `outcome` is final
  Outcome outcome;
  const std::byte* result = nullptr;  // shared result, zero elements: none
  bool holds_result = false;          // its slot is not given back yet
};

// What maypole_all_reduce asks for, checked.
struct OpRequest {
  std::string name;
  std::uint8_t collective = 0;
  std::uint8_t dtype = 0;
  std::uint8_t reduction = 0;
  std::uint8_t algorithm = 0;
  std::int32_t priority = 0;
  std::uint64_t elements = 0;
  std::uint64_t element_bytes = 1;
  void* data = nullptr;
  Duration timeout{0};
  bool shared_result = false;
  bool overwrite = false;
};

}  // namespace maypole::client::internal
