#include "collective/parts.h"

#include <algorithm>
#include <numeric>

#include "common/check.h"

namespace maypole::collective {
namespace {

Part PartInPlace(ElementRange range, std::uint32_t from, std::uint32_t to) {
  return {.range = range,
          .from = from,
          .to = to,
          .input_begin = range.begin,
          .output_begin = range.begin};
}

std::vector<Part> Blocks(const Layout& layout) {
  const auto ranks = static_cast<std::uint32_t>(layout.placement->size());
  const bool is_gather = layout.collective == Collective::kAllGather;
  std::vector<Part> parts;
  ElementCount begin = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const ElementCount count =
        layout.counts.empty() ? layout.elements / ranks : layout.counts[rank];
    if (count > 0) {
      parts.push_back(PartInPlace(
          {begin, begin + count}, is_gather ? rank : kEverybody, is_gather ? kEverybody : rank));
    }
    begin += count;
  }
  MAYPOLE_CHECK(begin == layout.elements);
  return parts;
}

// Rows from all ranks, of those `to` the ranks given, or of all ranks if `from` is among them.
std::vector<Part> Matrix(const Layout& layout, const std::vector<std::uint32_t>& here) {
  const auto ranks = static_cast<std::uint32_t>(layout.placement->size());
  const ElementCount block = layout.elements / ranks;
  MAYPOLE_CHECK(block * ranks == layout.elements);
  std::vector<std::uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0U);
  std::vector<Part> parts;
  for (const std::uint32_t from : all) {
    const bool is_here = std::binary_search(here.begin(), here.end(), from);
    for (const std::uint32_t to : is_here ? all : here) {
      const ElementCount begin = from * layout.elements + to * block;
      parts.push_back({.range = {begin, begin + block},
                       .from = from,
                       .to = to,
                       .input_begin = to * block,
                       .output_begin = from * block});
    }
  }
  return parts;
}

std::vector<Part> PartsOf(const Layout& layout, const std::vector<std::uint32_t>& here) {
  const ElementRange all = {0, layout.elements};
  if (layout.elements == 0) {
    return {};
  }
  switch (layout.collective) {
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return Blocks(layout);
    case Collective::kAllToAll:
      return Matrix(layout, here);
    case Collective::kBroadcast:
      return {PartInPlace(all, layout.root, kEverybody)};
    case Collective::kReduce:
      return {PartInPlace(all, kEverybody, layout.root)};
    case Collective::kSendReceive:
      return {PartInPlace(all, layout.root, layout.peer)};
    case Collective::kAllReduce:
    case Collective::kBarrier:
      break;
  }
  return {PartInPlace(all, kEverybody, kEverybody)};
}

}  // namespace

std::vector<Part> PartsOf(const Layout& layout) {
  std::vector<std::uint32_t> all(layout.placement == nullptr ? 0 : layout.placement->size());
  std::iota(all.begin(), all.end(), 0U);
  return PartsOf(layout, all);
}

std::vector<Part> PartsAt(Member member, const Layout& layout) {
  std::vector<std::uint32_t> here;
  for (std::uint32_t rank = 0; rank < layout.placement->size(); ++rank) {
    if ((*layout.placement)[rank] == member.value()) {
      here.push_back(rank);
    }
  }
  return PartsOf(layout, here);
}

std::vector<Part> InMembers(std::span<const Part> parts, const Placement& placement) {
  std::vector<Part> moved(parts.begin(), parts.end());
  for (Part& part : moved) {
    part.from = part.from == kEverybody ? kEverybody : placement[part.from];
    part.to = part.to == kEverybody ? kEverybody : placement[part.to];
  }
  return moved;
}

ElementCount SpaceOf(const Layout& layout) {
  return layout.collective == Collective::kAllToAll ? layout.elements * layout.placement->size()
                                                    : layout.elements;
}

const Part& PartAt(std::span<const Part> parts, ElementCount element) {
  const auto after =
      std::upper_bound(parts.begin(), parts.end(), element, [](ElementCount at, const Part& part) {
        return at < part.range.begin;
      });
  MAYPOLE_CHECK(after != parts.begin() && element < std::prev(after)->range.end);
  return *std::prev(after);
}

std::vector<Part> PartsOf(const Shape& shape) {
  if (!shape.parts.empty() || shape.elements == 0) {
    return shape.parts;
  }
  return {PartInPlace({0, shape.elements}, kEverybody, kEverybody)};
}

}  // namespace maypole::collective
