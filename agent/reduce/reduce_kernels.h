// The vector loops behind Reduce, compiled once per instruction set and chosen at run time.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "agent/reduce/work.h"
#include "common/quantity.h"

namespace maypole::agent {

// Bit m set: output m is written past the caches. Outputs from 64 on never are.
using StreamMask = std::uint64_t;

// Applies a work that computes something to the elements of `range`, without its saves.
void ReduceRange(const ReduceWork& work, ElementRange range, StreamMask streamed);

// memcpy with stores past the caches, for bytes that nobody reads soon.
void StreamCopy(std::byte* target, const std::byte* source, std::size_t bytes);

// Streamed bytes may be seen by other threads only after this.
void FlushStreams();

const char* KernelTarget();

}  // namespace maypole::agent
