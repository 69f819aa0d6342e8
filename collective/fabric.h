// What lies between the ports of a modelled network, and when it is free again.
//
// Pure. Internal to the simulator, whose header says how messages travel.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "collective/network.h"
#include "collective/symmetry.h"

namespace maypole::collective {

// When the first and the last byte of a message leave a link.
struct Train {
  double head;
  double tail;
};

class Fabric {
 public:
  // Borrows `network`, which is for all members of the symmetry.
  Fabric(const Network& network, const Symmetry& symmetry);

  // How much slower a member's port and sums are.
  double SlownessOf(Member member) const;

  double PortSeconds(std::uint64_t bytes, Member member) const;

  double Latency(Member from, Member to) const;

  // Sends a message of a representative that leaves its port as `train` says; latency comes on top.
  Train Carry(Train train, Member from, Member to, std::uint64_t bytes);

 private:
  bool CrossesGroups(Member from, Member to) const;

  const Network& network_;
  const Symmetry symmetry_;
  std::map<std::pair<Member, Member>, double> path_free_;
  std::map<std::uint32_t, double> up_free_;  // by group
  std::map<std::uint32_t, double> down_free_;
};

}  // namespace maypole::collective
