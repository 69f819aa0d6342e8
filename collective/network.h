// A network as the simulator models it: what every member has, and what they share.
//
// Pure data; simulate.h says how messages travel. Units: seconds, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "collective/cost.h"
#include "collective/schedule.h"

namespace maypole::collective {

struct Network {
  // Of every port, and how many a member has; its latency is that of every path. Its uplink and
  // slowest are the cost model's short forms of what stands below, and not looked at.
  LinkModel link;

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

}  // namespace maypole::collective
