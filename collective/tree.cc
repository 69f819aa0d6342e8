#include "collective/tree.h"

#include <algorithm>
#include <bit>

#include "collective/slices.h"
#include "common/check.h"

namespace maypole::collective {
namespace {

// The first tree: below the root (0), the subtree of height h around index i spans
// [i - 2^h + 1, i + 2^h - 1], cut off at the size.
TreePlace PlaceInFirstTree(std::uint32_t size, std::uint32_t index) {
  TreePlace place;
  if (index == 0) {
    if (size > 1) {
      place.children.push_back(std::bit_ceil(size) / 2);
    }
    return place;
  }
  const std::uint32_t height_bit = index & (~index + 1);
  const std::uint32_t upper = (index ^ height_bit) | (height_bit << 1);
  place.parent = upper < size ? upper : index ^ height_bit;
  if (height_bit > 1) {
    place.children.push_back(index - height_bit / 2);
  }
  for (std::uint32_t step = height_bit / 2; step > 0; step /= 2) {
    if (index + step < size) {
      place.children.push_back(index + step);
      break;
    }
  }
  return place;
}

// Whom the second tree has where the first has `index`; its own inverse if `size` is even.
std::uint32_t ToSecond(std::uint32_t size, std::uint32_t index) {
  return size % 2 == 0 ? size - 1 - index : (index + 1) % size;
}

std::uint32_t FromSecond(std::uint32_t size, std::uint32_t index) {
  return size % 2 == 0 ? size - 1 - index : (index + size - 1) % size;
}

}  // namespace

TreePlace PlaceInTree(TreeKind kind, std::uint32_t size, std::uint32_t index) {
  MAYPOLE_CHECK(index < size);
  if (kind == TreeKind::kFirst) {
    return PlaceInFirstTree(size, index);
  }
  TreePlace place = PlaceInFirstTree(size, FromSecond(size, index));
  if (place.parent) {
    place.parent = ToSecond(size, *place.parent);
  }
  for (std::uint32_t& child : place.children) {
    child = ToSecond(size, child);
  }
  return place;
}

std::uint32_t RootOfTree(TreeKind kind, std::uint32_t size) {
  return kind == TreeKind::kFirst ? 0 : ToSecond(size, 0);
}

void TreeReduce(Flow& flow, const Team& team, TreeKind kind, Block units, bool complete) {
  const TreePlace place = PlaceInTree(kind, team.size(), team.self);
  for (UnitIndex unit = units.begin; unit < units.end; ++unit) {
    for (const std::uint32_t child : place.children) {
      const bool last = !place.parent && child == place.children.back();
      flow.Combine(unit, team.at(child), complete && last);
    }
    if (place.parent) {
      flow.Send(unit, team.at(*place.parent));
    }
  }
}

void TreeSpread(Flow& flow, const Team& team, TreeKind kind, Block units) {
  const TreePlace place = PlaceInTree(kind, team.size(), team.self);
  for (UnitIndex unit = units.begin; unit < units.end; ++unit) {
    if (place.parent) {
      flow.Take(unit, team.at(*place.parent));
    }
    for (const std::uint32_t child : place.children) {
      flow.Send(unit, team.at(child));
    }
  }
}

Schedule MakeTreeAllReduce(const Shape& shape) {
  if (shape.members == 1) {
    return CopyOfInput(Algorithm::kTree, shape);
  }
  std::vector<Block> blocks;
  Flow flow(Algorithm::kTree, shape, CutIntoChunks(shape, 1, blocks));
  const Team team = Team::Everybody(shape);
  for (UnitIndex unit = 0; unit < blocks[0].end; ++unit) {
    TreeReduce(flow, team, TreeKind::kFirst, {unit, unit + 1}, true);
    TreeSpread(flow, team, TreeKind::kFirst, {unit, unit + 1});
  }
  return flow.Finish();
}

Schedule MakeDoubleTreeAllReduce(const Shape& shape) {
  if (shape.members == 1) {
    return CopyOfInput(Algorithm::kDoubleTree, shape);
  }
  std::vector<Block> halves;
  Flow flow(Algorithm::kDoubleTree, shape, CutIntoChunks(shape, 2, halves));
  const Team team = Team::Everybody(shape);
  const TreeKind kinds[] = {TreeKind::kFirst, TreeKind::kSecond};
  for (UnitIndex k = 0; k < std::max(halves[0].size(), halves[1].size()); ++k) {
    for (std::size_t half = 0; half < halves.size(); ++half) {
      const UnitIndex unit = halves[half].begin + k;
      if (unit < halves[half].end) {
        TreeReduce(flow, team, kinds[half], {unit, unit + 1}, true);
      }
    }
    for (std::size_t half = 0; half < halves.size(); ++half) {
      const UnitIndex unit = halves[half].begin + k;
      if (unit < halves[half].end) {
        TreeSpread(flow, team, kinds[half], {unit, unit + 1});
      }
    }
  }
  return flow.Finish();
}

}  // namespace maypole::collective
