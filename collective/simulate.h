// Runs the schedules of all members on a modelled network in virtual time.
//
// Pure and deterministic: events at the same time run in the order in which they were caused.
//
// The network: every member has a full-duplex port, every ordered pair of members a path. A message
// is sent cut-through, like a train of packets: it occupies the sender's port out, then the path
// and the uplinks between groups, then the receiver's port in, each for bytes / rate (the ports
// also for message_seconds) and each for one message at a time: the ports in order of arrival, what
// lies between in order of sending. Its head is at the receiver one latency after it entered the
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
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective/cost.h"
#include "collective/schedule.h"

namespace maypole::collective {

struct Network {
  LinkModel link;  // of every port; the latency of every path

  // Paths from .first to .second with another latency and a rate of their own, which may be lower
  // than the ports'.
  std::map<std::pair<Member, Member>, LinkModel> paths;

  // Groups of members behind one switch, as in a fat tree: what goes from group to group shares the
  // way out of the one and the way into the other, each of `uplink`'s rate, and takes its latency
  // longer. By member; empty: one switch for all. Eight members at rate b behind an uplink of 4 b
  // are oversubscribed 2:1.
  std::vector<std::uint32_t> group_of;
  LinkModel uplink;

  // By member, 1 if absent: its port and its sums take so many times as long.
  std::vector<double> slowness;
};

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
  std::vector<std::uint64_t> bytes_sent;  // by member
  std::vector<std::uint64_t> bytes_received;
  std::vector<double> member_seconds;  // until each member's last step
};

// The schedules must have passed the form checks of verify.h. Time: O(log n) for each of n steps.
Simulation Simulate(std::span<const Schedule> schedules,
                    const Network& network,
                    const SimulationOptions& options = {});

}  // namespace maypole::collective
