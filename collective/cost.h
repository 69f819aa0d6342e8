// What an all-reduce costs by the latency-bandwidth model: a message of m bytes takes
// latency + m / bandwidth.
//
// Pure; closed formulas for N bytes and P members, all with full-duplex links of the same kind:
//
//   algorithm  rounds    bytes sent = received   seconds
//   ring       2(P-1)    2(P-1)/P N              2(P-1) latency + 2(P-1)/P N / bandwidth
//   direct     2         2(P-1)/P N              2 latency      + 2(P-1)/P N / bandwidth
//   naive      1         (P-1) N                 2(P-1) (latency + N / bandwidth)
//
// Naive is charged one message at a time, P-1 out and P-1 in, as a program without concurrency
// would send them; links that carry both directions at once need half of it. Summing and slicing
// cost nothing here, and contention does not exist: simulate.h has them.
// Source: Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel
// Computing 20(3), 1994; for the ring see ring.h.
#pragma once

#include <cstdint>

#include "collective/schedule.h"

namespace maypole::collective {

struct LinkModel {
  double latency_seconds = 0;
  double bytes_per_second = 0;  // > 0; of each direction
};

struct Cost {
  std::uint32_t rounds = 0;          // messages that must follow one another
  std::uint64_t bytes_sent = 0;      // by the member that sends most, if P divides N; rounded up
  std::uint64_t bytes_received = 0;  // likewise
  double seconds = 0;
};

// `algorithm` is not kAuto; `members` > 0. One member costs nothing.
Cost PredictAllReduce(Algorithm algorithm,
                      std::uint64_t bytes,
                      std::uint32_t members,
                      LinkModel link);

// 2N/T: what a user compares with the rate of the link, whatever the algorithm. 0 for no time.
double EffectiveBandwidth(std::uint64_t bytes, double seconds);

}  // namespace maypole::collective
