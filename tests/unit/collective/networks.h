// Networks that tests simulate.
#pragma once

#include <cstdint>

#include "collective/network.h"

namespace maypole::collective {

inline constexpr LinkModel kLink = {.latency_seconds = 5e-6, .bytes_per_second = 25e9 / 8};

inline LinkModel WithRails(std::uint32_t rails) {
  LinkModel link = kLink;
  link.rails = rails;
  return link;
}

// Groups of `size` members each, whose uplinks carry 1/oversubscription of what their members can.
inline Network FatTree(std::uint32_t members, std::uint32_t size, double oversubscription) {
  Network network = {.link = kLink};
  for (std::uint32_t member = 0; member < members; ++member) {
    network.group_of.push_back(member / size);
  }
  network.uplink = {.latency_seconds = 2e-6,
                    .bytes_per_second = kLink.bytes_per_second * size / oversubscription};
  network.link.uplink = {size, network.uplink.bytes_per_second, network.uplink.latency_seconds};
  return network;
}

// One member of every `period` takes twice as long.
inline Network SlowMembers(std::uint32_t members, std::uint32_t period) {
  Network network = {.link = kLink};
  for (std::uint32_t member = 0; member < members; ++member) {
    network.slowness.push_back(member % period == period / 2 ? 2 : 1);
  }
  return network;
}

}  // namespace maypole::collective
