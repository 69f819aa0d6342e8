// What a collective costs by the latency-bandwidth model: a message of m bytes takes
// latency + m / bandwidth.
//
// Pure; closed formulas for N bytes and P members, all with full-duplex links of the same kind.
// L = ceil(log2 P), Q = the largest power of two up to P, S slices of s bytes, a latency, b
// bandwidth:
//
//   algorithm         rounds             bytes sent = received      seconds
//   ring              2(P-1)             2(P-1)/P N                 2(P-1) a + 2(P-1)/P N / b
//   direct            2                  2(P-1)/P N                 2 a      + 2(P-1)/P N / b
//   naive             1                  (P-1) N                    2(P-1) (a + N / b)
//   tree              2L                 3N (P=2: N, P=3: 2N)       2L a + (4L-2 + 3(S-1)) s / b
//   double tree       2L                 2N (P=2: N, P=3: 1.5N)     2L a + (4L-2 + 2(S-1)) s / b
//   halving-doubling  2 log2 Q (+2)      2(Q-1)/Q N (+N)            rounds a + 2(Q-1)/Q N (+2N) / b
//
// Each message that a member sends adds message_seconds: that is what speaks against direct, which
// sends 2(P-1) of them however small the tensor is, and halving-doubling, which sends 2(Q-1) at
// least.
// What stands in brackets at halving-doubling comes in where P > Q. Naive is charged one message at
// a time, P-1 out and P-1 in, as a program without concurrency would send them; links that carry
// both directions at once need half of it. A tree's first slice meets 4L-2 messages on its way, as
// a parent takes two children one after the other; the slices after it come at the pace of the
// busiest member.
//
// With r rails the parts of b and of messages shrink to 1/r where as many messages are on the way
// at once: a ring whose chunk is one slice uses one rail.
// Behind uplinks of rate u, with groups of g, direct sends 2 g (P-g)/P N out of a group and
// halving-doubling 2 g (Q-g)/Q N, a ring what one member sends, a tree 4N, a double tree 3N (each
// 2N among up to three groups); what that takes longer than the members' own links comes on top. A
// slowest member that takes k times as long makes that much longer what a busy member sends, but of
// the way of a tree's first slice only the six messages of one parent. Summing costs nothing here,
// and members never collide: simulate.h has both.
//
// The other collectives, where bytes are those of the member that sends most:
//
//   collective        algorithm  rounds  bytes         seconds
//   reduce-scatter,   ring       P-1     (P-1)/P N     (P-1) a + (P-1)/P N / b
//   all-gather        direct     1       (P-1)/P N     a       + (P-1)/P N / b
//   broadcast,        ring       P-1     N             (P-1) a + (N + (P-2) s) / b
//   reduce            tree       L       2N (P<4: N)   L a     + (2L-1 + 2(S-1)) s / b
//                     direct     1       (P-1) N       a       + (P-1) N / b
//   all-to-all        direct     1       (P-1)/P N     a       + (P-1)/P N / b
//   send/receive      direct     1       N             a       + N / b
//
// Sources: Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel
// Computing 20(3), 1994; for each algorithm its header.
#pragma once

#include <cstdint>
#include <span>

#include "collective/schedule.h"

namespace maypole::collective {

// What groups of neighbouring members share: the link of their switch to the others' switches.
struct UplinkModel {
  std::uint32_t members = 0;    // of a group; 0: one switch for all
  double bytes_per_second = 0;  // > 0 if there are groups; of each direction, for the whole group
  double latency_seconds = 0;   // on top of a member's
};

struct LinkModel {
  double latency_seconds = 0;
  double bytes_per_second = 0;  // > 0; of each direction
  double message_seconds = 0;   // of a port, for each message whatever its size
  std::uint32_t rails = 1;      // > 0; ports of a member, each with that rate; a message takes one
  UplinkModel uplink = {};
  double slowest = 1;  // >= 1; times that the slowest member's ports take as long
};

struct Cost {
  std::uint32_t rounds = 0;          // messages that must follow one another
  std::uint64_t bytes_sent = 0;      // by the member that sends most, if P divides N; rounded up
  std::uint64_t bytes_received = 0;  // likewise
  double seconds = 0;
};

inline constexpr std::uint64_t kDefaultSliceBytes = 512 * 1024;

// `algorithm` is neither kAuto nor kHierarchical; `members` > 0. One member costs nothing.
// `slice_bytes` (> 0) bounds a message; without message_seconds only the trees' time depends on it.
Cost PredictAllReduce(Algorithm algorithm,
                      std::uint64_t bytes,
                      std::uint32_t members,
                      LinkModel link,
                      std::uint64_t slice_bytes = kDefaultSliceBytes);

// The same for any collective. `bytes` of one rank's tensor, blocks equal; `algorithm` one that the
// collective has (parts.h) but for kAuto, kHierarchical, and a tree of kReduceScatter or
// kAllGather.
Cost Predict(Collective collective,
             Algorithm algorithm,
             std::uint64_t bytes,
             std::uint32_t members,
             LinkModel link,
             std::uint64_t slice_bytes = kDefaultSliceBytes);

// Times N / time, what the busiest link carries each way: by which factor the bus bandwidth of a
// collective, as benchmarks call it, differs from N / time. 0 for a barrier.
double BusFactor(Collective collective, std::uint32_t members);

// A level of a hierarchy with groups of equal size, innermost first.
struct LevelModel {
  std::uint32_t members = 1;  // of a group: groups of the level below
  Algorithm algorithm = Algorithm::kRing;
  LinkModel link;  // what each member of a group has to itself
};

// Each level all-reduces what its owners hold, one level after the other. A message is at most the
// part that the highest level gives to one owner; the latency of a ring whose chunks are several
// such hides behind them.
Cost PredictHierarchical(std::span<const LevelModel> levels,
                         std::uint64_t bytes,
                         std::uint64_t slice_bytes = kDefaultSliceBytes);

// 2N/T: what a user compares with the rate of the link, whatever the algorithm. 0 for no time.
double EffectiveBandwidth(std::uint64_t bytes, double seconds);

}  // namespace maypole::collective
