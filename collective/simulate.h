// Runs the schedules of all members on a modelled network in virtual time.
//
// Pure and deterministic: events at the same time run in the order in which they were caused.
//
// The network: every member has a full-duplex port (or several rails, of which a message takes the
// first that is free), every ordered pair of members a path. A message is sent cut-through, like a
// train of packets: it occupies the sender's port out, then the path and the uplinks between
// groups, then the receiver's port in, each for bytes / rate (the ports also for message_seconds)
// and each for one message at a time: the ports in order of arrival, what lies between in order of
// sending. Its head is at the receiver one latency after it entered the
// path; it is delivered when its tail is. So a slow receiver does not hold up the sender (what
// waits lies in the network, as in a lossless switch with deep buffers); `window` bounds how much
// does.
//
// The member: of the steps that are ready it sends the one that is first in its list, unless
// `window` messages to that peer are already on the way. A send is over when it has left the port;
// its place in the window is free one latency after delivery. Sums and copies take
// `seconds_per_element`, one at a time. Receiving without a sum takes no time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collective/network.h"
#include "collective/schedule.h"
#include "collective/symmetry.h"

namespace maypole::collective {

struct SimulationOptions {
  std::uint32_t window = 4;             // messages on the way from one member to one other; > 0
  double seconds_per_element = 0;       // of a sum or copy
  std::uint32_t accumulator_bytes = 4;  // of an element from kInput or kPartial on the wire
  std::uint32_t result_bytes = 4;       // of an element from kResult on the wire
  std::uint32_t header_bytes = 0;       // of a message
};

struct Simulation {
  bool finished = false;
  std::string problem;       // if not finished: which step waits
  double seconds = 0;        // until the last step of the last member
  std::uint32_t rounds = 0;  // the longest chain of messages of which each needs the one before
  std::vector<std::uint64_t> bytes_sent;  // by member; of a symmetry, the representatives
  std::vector<std::uint64_t> bytes_received;
  std::vector<double> member_seconds;  // until each member's last step
};

// The schedules, of all members, must have passed the form checks of verify.h. Time: O(log n) for
// each of n steps.
Simulation Simulate(std::span<const Schedule> schedules,
                    const Network& network,
                    const SimulationOptions& options = {});

// Makes the schedules and runs them, of as few members as FindSymmetry says: 4,096 members take
// milliseconds to seconds.
Simulation SimulateAllReduce(Algorithm algorithm,
                             const Shape& shape,
                             const Network& network,
                             const SimulationOptions& options = {});

}  // namespace maypole::collective
