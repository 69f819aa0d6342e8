// Which submissions belong together, whether they agree, and the sentences when they do not. Pure
// functions: every agent computes the same text from the same announces.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/engine/events.h"
#include "common/error_code.h"
#include "proto/announce.h"

namespace maypole::agent {

// An op of a job: the `occurrence`-th use of the name with this hash.
struct OpKey {
  std::uint64_t hash = 0;
  std::uint64_t occurrence = 0;

  friend auto operator<=>(const OpKey&, const OpKey&) = default;
};

// Set in the hash of an op of two ranks: other ranks and their agents have no part in it.
inline constexpr std::uint64_t kPairBit = std::uint64_t{1} << 63;

// Fnv1a less kPairBit: the same on every agent.
std::uint64_t HashName(std::string_view name);
// Of the op's name, and of its two ranks if it is a send/receive: names of different pairs do not
// clash, nor with those of all.
std::uint64_t HashOf(const Submission& submission);

// Empty if rank `self` of `world_size` may ask for this. Errors: kInvalidArgument.
Outcome CheckRanks(const Submission& submission, Rank self, std::uint32_t world_size);

OpShape ShapeOf(const Submission& submission);
// As it is announced, without its ranks.
AnnounceGroup GroupOf(const Submission& submission);

// `all_reduce "layer1" #3`
std::string Describe(std::uint8_t collective, std::string_view name, std::uint64_t occurrence);

// "rank 3", "ranks 0-2, 5"; "ranks=0,1,2,5" for programs.
std::string FormatRanks(std::vector<Rank> ranks);
std::string ListRanks(std::vector<Rank> ranks);
// The lowest so many are listed: a slot's outcome has little room, and a number cut in two names
// the wrong rank.
inline constexpr std::size_t kListedRanksMax = 12;

// Empty if all announces (one per member that takes part) agree; else the refusal that all ranks
// get, naming each differing field with its values and groups of ranks. Culprits: all but the
// largest group that agrees, if there is one.
std::optional<Outcome> FindMismatch(std::uint64_t occurrence,
                                    std::span<const std::optional<Announce>> announces);

}  // namespace maypole::agent
