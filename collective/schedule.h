// A collective as data: what one member (an agent) sends, receives and sums, and after which of its own steps.
//
// Pure data: no buffer, address, clock or error of a network. Makers (ring.h, direct.h, ...) are pure functions
// that return one Schedule; the engine (agent/engine/execution.h) and the simulator (simulate.h) interpret any of them
// and know no algorithm.
//
// Buffers, each logically `elements` long:
//   kInput    the sum of what the member's own ranks submitted. Read only. (The engine sums the ranks lazily, fused
//             into the step that reads it.)
//   kPartial  sums that are not yet complete, in the accumulator type (f32 for half types). Lives from the
//             step that writes a range until the last step that reads it; the engine keeps it in slices of a pool.
//   kResult   the finished elements, in the tensor's own type. Writing a reduction into kResult *finalises*: divides
//             for a mean and rounds, once.
//
// Matching: the k-th send of A to B in the order of A's list meets the k-th receive from A in B's list, whatever the
// order in time. The two ranges are equal. This ordinal is what a frame carries.
//
// Numerics: a combination is target = received (+) source, for kReduce target = source (+) partial and for kCopy
// target = source; (+) is commutative in its two operands, so a schedule fixes the association of every element.
//
// In place: kResult may lie where kInput lies. A step that writes a range of kResult therefore comes after every step
// of the same member that reads the range from kInput: by `after`, or because it needs a message that a chain of steps
// could only send once the read was done. verify.h proves it; the engine need not check.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/quantity.h"

namespace maypole::collective {

enum class Collective : std::uint8_t { kAllReduce = 0, kBarrier = 1 };

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
  std::array<StepIndex, 2> after = {kNoStep, kNoStep};  // smaller indices that must have completed first
  std::uint32_t ordinal = 0;        // number of earlier sends to (receives from) the same peer; set by the maker
};

struct Schedule {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  Member self{0};
  std::uint32_t members = 1;
  ElementCount elements = 0;
  std::vector<Step> steps;  // a valid topological order
};

// One level of a hierarchy (hierarchical.h): sizes of groups, of consecutive members at the first level, of consecutive
// groups of the level below at the others.
struct Level {
  std::vector<std::uint32_t> groups;
  Algorithm algorithm = Algorithm::kRing;  // inside a group; not kAuto, kNaive or kHierarchical

  friend bool operator==(const Level&, const Level&) = default;
};

// What a maker needs. `slice_elements` (> 0) bounds the range of one step; slices of a chunk are pipelined.
struct Shape {
  std::uint32_t members = 1;
  Member self{0};
  ElementCount elements = 0;
  ElementCount slice_elements = 1 << 17;
  std::vector<Level> levels = {};  // innermost first; empty: kHierarchical is not available

  friend bool operator==(const Shape&, const Shape&) = default;
};

std::string_view Name(Algorithm algorithm);
std::string_view Name(Collective collective);

// Chunk `index` of `elements` cut into `members` parts of q = ceil(elements / members): [min(E, index*q), min(E, (index+1)*q)),
// possibly empty. From q = 8192 on, q is rounded up to a multiple of 64 elements, so that chunks begin where cache
// lines do; it makes the longest chunk at most 0.8 % longer.
ElementRange ChunkOf(ElementCount elements, std::uint32_t members, std::uint32_t index);

}  // namespace maypole::collective
