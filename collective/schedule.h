// A collective as data: what one member (an agent) sends, receives and sums, and after which of its
// own steps.
//
// Every collective is the same question about a space of `elements`, cut into parts (Part): from
// whom does a part come, from one member or as the sum of all, and who gets it, one or all? parts.h
// has the parts of each collective.
//
// Pure data: no buffer, address, clock or error of a network. Makers (ring.h, direct.h, ...) are
// pure functions that return one Schedule; the engine (agent/engine/execution.h) and the simulator
// (simulate.h) interpret any of them and know no algorithm.
//
// Buffers, each logically `elements` long:
//   kInput    what the member puts in: the sum of what its own ranks submitted, or of a part that
//             comes from one rank what that one submitted. Read only. (The engine sums the ranks
//             lazily, fused into the step that reads it.)
//   kPartial  sums that are not yet complete, in the accumulator type (f32 for half types). Lives
//             from the step that writes a range until the last step that reads it; the engine keeps
//             it in slices of a pool.
//   kResult   the finished elements, in the tensor's own type. Writing a reduction into kResult
//             *finalises*: divides for a mean and rounds, once.
//
// Matching: the k-th send of A to B in the order of A's list meets the k-th receive from A in B's
// list, whatever the order in time. The two ranges are equal. This ordinal is what a frame carries.
//
// Numerics: a combination is target = received (+) source, for kReduce target = source (+) partial
// and for kCopy target = source; (+) is commutative in its two operands, so a schedule fixes the
// association of every element.
//
// Parts from one member: their input is finished as it is, may go straight into kResult elsewhere,
// and is copied into the member's own kResult if that gets it too.
//
// In place: kResult may lie where kInput lies. A step that writes a range of kResult therefore
// comes after every step of the same member that reads the range from kInput: by `after`, or
// because it needs a message that a chain of steps could only send once the read was done. verify.h
// proves it; the engine need not check. (A part from one member is exempt: what is written there
// are the same bytes.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/quantity.h"

namespace maypole::collective {

// The numbers are part of the segment layout and of the wire.
enum class Collective : std::uint8_t {
  kAllReduce = 0,
  kBarrier = 1,
  kReduceScatter = 2,  // every rank gets its block of the sum
  kAllGather = 3,      // every rank gets the blocks of all
  kBroadcast = 4,
  kReduce = 5,
  kAllToAll = 6,     // rank r gets block r of every rank
  kSendReceive = 7,  // from one rank to another; nobody else takes part
};
inline constexpr std::size_t kCollectiveCount = 8;

enum class Algorithm : std::uint8_t {
  kAuto = 0,             // let select.h choose
  kRing = 1,             // reduce-scatter and all-gather round the ring
  kDirect = 2,           // every member reduces its own chunk: two rounds
  kNaive = 3,            // everybody sends everything to everybody: the counted baseline
  kTree = 4,             // sums climb a binary tree, results descend
  kDoubleTree = 5,       // half of the tensor on each of two trees
  kHalvingDoubling = 6,  // "halving": exchanges at halving, then doubling distances
  kHierarchical = 7,     // levels of the others; needs Shape::levels
};

// All but kAuto.
inline constexpr std::array kAlgorithms = {Algorithm::kRing,
                                           Algorithm::kDirect,
                                           Algorithm::kNaive,
                                           Algorithm::kTree,
                                           Algorithm::kDoubleTree,
                                           Algorithm::kHalvingDoubling,
                                           Algorithm::kHierarchical};

enum class StepKind : std::uint8_t {
  kSend,           // source -> peer
  kReceive,        // peer -> target, as it is
  kReceiveReduce,  // peer (+) source -> target
  kReduce,         // source (+) kPartial -> target, on this member; source is kInput
  kCopy,           // source -> target on this member (kInput -> kResult: the local sum, finalised)
};

enum class Buffer : std::uint8_t { kInput, kPartial, kResult };

using StepIndex = std::uint32_t;
inline constexpr StepIndex kNoStep = 0xffffffff;

struct Step {
  StepKind kind = StepKind::kCopy;
  Buffer source = Buffer::kInput;   // kSend, kReceiveReduce, kReduce, kCopy
  Buffer target = Buffer::kResult;  // kReceive, kReceiveReduce, kReduce, kCopy
  Member peer{0};                   // kSend, kReceive, kReceiveReduce
  ElementRange range;               // the same range in source, target and frame; never empty
  // Smaller indices, of steps that must have completed first.
  std::array<StepIndex, 2> after = {kNoStep, kNoStep};
  // Number of earlier sends to (receives from) the same peer; set by the maker.
  std::uint32_t ordinal = 0;

  friend bool operator==(const Step&, const Step&) = default;
};

struct Schedule {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  Member self{0};
  std::uint32_t members = 1;
  ElementCount elements = 0;
  std::vector<Step> steps;  // a valid topological order
};

// In place of a member or rank.
inline constexpr std::uint32_t kEverybody = 0xffffffff;

// A range that fares alike. Of ranks (parts.h) or of members; no step reaches beyond the part that
// it begins in.
struct Part {
  ElementRange range;
  std::uint32_t from = kEverybody;  // whose input it is; kEverybody: the sum of all
  std::uint32_t to = kEverybody;    // who gets it
  // Where it begins in the tensor of a rank that puts it in, and in that of one that gets it.
  ElementCount input_begin = 0;
  ElementCount output_begin = 0;

  constexpr bool ComesFrom(std::uint32_t who) const { return from == kEverybody || from == who; }

  constexpr bool GoesTo(std::uint32_t who) const { return to == kEverybody || to == who; }

  constexpr bool is_sum() const { return from == kEverybody; }

  friend bool operator==(const Part&, const Part&) = default;
};

// One level of a hierarchy (hierarchical.h): sizes of groups, of consecutive members at the first
// level, of consecutive groups of the level below at the others.
struct Level {
  std::vector<std::uint32_t> groups;
  Algorithm algorithm = Algorithm::kRing;  // inside a group; not kAuto, kNaive or kHierarchical

  friend bool operator==(const Level&, const Level&) = default;
};

// What a maker needs. `slice_elements` (> 0) bounds the range of one step; slices of a chunk are
// pipelined.
struct Shape {
  std::uint32_t members = 1;
  Member self{0};
  ElementCount elements = 0;
  ElementCount slice_elements = 1 << 17;
  std::vector<Level> levels = {};  // innermost first; empty: kHierarchical is not available
  Collective collective = Collective::kAllReduce;
  // Of members, ascending, all elements or all that concern `self` (PartsAt in parts.h); empty: one
  // part, from everybody to everybody.
  std::vector<Part> parts = {};
  // The order in which kDirect and kNaive add up the members; empty: by number.
  std::vector<Member> sum_order = {};

  friend bool operator==(const Shape&, const Shape&) = default;
};

constexpr std::string_view Name(Algorithm algorithm) {
  constexpr std::array<std::string_view, kAlgorithms.size() + 1> kNames = {
      "auto", "ring", "direct", "naive", "tree", "double_tree", "halving", "hierarchical"};
  const auto number = static_cast<std::size_t>(algorithm);
  return number < kNames.size() ? kNames[number] : "unknown";
}

constexpr std::string_view Name(Collective collective) {
  constexpr std::array<std::string_view, kCollectiveCount> kNames = {"all_reduce",
                                                                     "barrier",
                                                                     "reduce_scatter",
                                                                     "all_gather",
                                                                     "broadcast",
                                                                     "reduce",
                                                                     "all_to_all",
                                                                     "send_receive"};
  const auto number = static_cast<std::size_t>(collective);
  return number < kNames.size() ? kNames[number] : "unknown";
}

std::optional<Algorithm> AlgorithmFromName(std::string_view name);  // of kAlgorithms; kAuto is none
std::optional<Collective> CollectiveFromName(std::string_view name);

// Chunk `index` of `elements` cut into `members` parts of q = ceil(elements / members):
// [min(E, index*q), min(E, (index+1)*q)), possibly empty. From q = 8192 on, q is rounded up to a
// multiple of 64 elements, so that chunks begin where cache lines do; it makes the longest chunk at
// most 0.8 % longer.
ElementRange ChunkOf(ElementCount elements, std::uint32_t members, std::uint32_t index);

}  // namespace maypole::collective
