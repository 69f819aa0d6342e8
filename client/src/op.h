// One op in flight, as its submitter holds it.
//
// Threads: one at a time. Ownership: keeps the session's bookkeeping (not its memory) alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/error_code.h"
#include "common/time.h"

namespace maypole::client::internal {

class Session;

// Memory that the agent works on: the caller's, if that is session memory, else a buffer there.
struct Buffer {
  std::byte* pinned = nullptr;  // the caller's block, which must not be freed meanwhile
  std::byte* staged = nullptr;  // the buffer
};

struct Op {
  std::shared_ptr<Session> session;
  std::string name;  // for messages: all_reduce "layer1"
  std::uint32_t slot = 0;
  std::uint64_t bytes = 0;  // of the tensor
  Buffer tensor;
  Buffer output;                     // of an all-to-all
  Buffer counts;                     // always staged
  std::byte* result_from = nullptr;  // staged: what is to be copied
  std::byte* result_to = nullptr;    // to the caller's memory after success
  std::size_t result_bytes = 0;
  bool shared_result = false;
  TimePoint give_up = kNever;  // the agent should have ended it long before
  bool ended = false;          // `outcome` is final
  Outcome outcome;
  const std::byte* result = nullptr;  // shared result, zero elements: none
  std::uint32_t result_segment = 0;   // where that lies
  bool holds_result = false;          // its slot is not given back yet
};

// Elements of the tensor that an op reads or writes.
struct Span {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};

// What a function of maypole.h asks for, checked.
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
  void* output = nullptr;             // of an all-to-all; else the result goes into `data`
  Span reads;                         // of data
  Span writes;                        // of data, or of output
  std::uint32_t root = 0;             // the sender of a send/receive
  std::uint32_t peer = 0;             // the receiver of a send/receive
  std::vector<std::uint64_t> counts;  // of each rank's block; empty: equal blocks
  Duration timeout{0};
  bool shared_result = false;
  bool overwrite = false;
};

}  // namespace maypole::client::internal
