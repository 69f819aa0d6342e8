#include "collective/fabric.h"

#include <algorithm>

#include "common/check.h"

namespace maypole::collective {
namespace {

// One message at a time; a fast link waits for the tail that a slow one before it delays.
Train Pass(Train train, double& free, std::uint64_t bytes, double bytes_per_second) {
  const double begin = std::max(train.head, free);
  free = std::max(train.tail, begin + static_cast<double>(bytes) / bytes_per_second);
  return {begin, free};
}

}  // namespace

Fabric::Fabric(const Network& network, const Symmetry& symmetry)
    : network_(network), symmetry_(symmetry) {
  MAYPOLE_CHECK(network.link.bytes_per_second > 0 && network.link.rails > 0);
  MAYPOLE_CHECK(network.group_of.empty() || (network.group_of.size() == symmetry.members &&
                                             network.uplink.bytes_per_second > 0));
}

double Fabric::SlownessOf(Member member) const {
  return member.value() < network_.slowness.size() ? network_.slowness[member.value()] : 1;
}

double Fabric::PortSeconds(std::uint64_t bytes, Member member) const {
  const LinkModel& link = network_.link;
  return (link.message_seconds + static_cast<double>(bytes) / link.bytes_per_second) *
         SlownessOf(member);
}

double Fabric::Latency(Member from, Member to) const {
  const auto path = network_.paths.find({from, to});
  const LinkModel& link = path != network_.paths.end() ? path->second : network_.link;
  return link.latency_seconds + (CrossesGroups(from, to) ? network_.uplink.latency_seconds : 0);
}

Train Fabric::Carry(Train train, Member from, Member to, std::uint64_t bytes) {
  if (const auto path = network_.paths.find({from, to}); path != network_.paths.end()) {
    train = Pass(train, path_free_[{from, to}], bytes, path->second.bytes_per_second);
  }
  if (CrossesGroups(from, to)) {
    const double rate = network_.uplink.bytes_per_second;
    const Member stands_for = symmetry_.RepresentativeOf(to);
    train = Pass(train, up_free_[network_.group_of[from.value()]], bytes, rate);
    train = Pass(train, down_free_[network_.group_of[stands_for.value()]], bytes, rate);
  }
  return train;
}

bool Fabric::CrossesGroups(Member from, Member to) const {
  const auto& group_of = network_.group_of;
  return !group_of.empty() && group_of[from.value()] != group_of[to.value()];
}

}  // namespace maypole::collective
