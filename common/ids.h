// Who is who. The words are those of docs/GLOSSARY.md.
#pragma once

#include <cstdint>

#include "common/strong_int.h"

namespace maypole {

// A training process within a job: 0 .. world_size-1, given by the job itself.
using Rank = StrongInt<struct RankTag, std::uint32_t>;

// An agent within one epoch of one job: its index in the epoch's member list, which is also the
// order of the ring. Schedules speak of members only.
using Member = StrongInt<struct MemberTag, std::uint32_t>;

// Version of a job's membership and topology; only grows.
using Epoch = StrongInt<struct EpochTag, std::uint32_t>;

// Random 64-bit name of one run of a job, given by the coordinator. Two runs of the same job name
// never share a token, so a frame of an earlier run is recognised and dropped.
using JobToken = StrongInt<struct JobTokenTag, std::uint64_t>;

}  // namespace maypole
