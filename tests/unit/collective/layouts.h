// Collectives but all-reduce and barrier, as tests want them made.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "collective/make.h"
#include "collective/parts.h"

namespace maypole::collective {

inline constexpr std::array kMoves = {Collective::kReduceScatter,
                                      Collective::kAllGather,
                                      Collective::kBroadcast,
                                      Collective::kReduce,
                                      Collective::kAllToAll,
                                      Collective::kSendReceive};

// `ranks` ranks dealt out to the members one by one, so that those of a member are no neighbours.
inline std::shared_ptr<const Placement> Dealt(std::uint32_t ranks, std::uint32_t members) {
  Placement placement;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    placement.push_back(rank % members);
  }
  return std::make_shared<const Placement>(std::move(placement));
}

// One rank for each member.
inline std::shared_ptr<const Placement> OneEach(std::uint32_t members) {
  return Dealt(members, members);
}

inline Shape ShapeOf(const Layout& layout, std::uint32_t members, ElementCount slice_elements) {
  return {.members = members,
          .elements = SpaceOf(layout),
          .slice_elements = slice_elements,
          .collective = layout.collective,
          .parts = InMembers(PartsOf(layout), *layout.placement)};
}

}  // namespace maypole::collective
