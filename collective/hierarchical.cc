#include "collective/hierarchical.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "collective/flow.h"
#include "collective/phases.h"
#include "collective/slices.h"
#include "common/check.h"

namespace maypole::collective {
namespace {

// A range of elements that owners pass up, and which part of each level's cut it is.
struct Piece {
  std::vector<std::uint32_t> path;  // by level below
  ElementRange range;
  Block units;
};

// The levels as seen by everybody: who belongs to which group, and who stands for it.
class Hierarchy {
 public:
  explicit Hierarchy(const std::vector<Level>& levels);

  std::size_t size() const { return levels_.size(); }

  // Parts that a piece is cut into at `level`, by all groups alike.
  std::uint32_t PartsAt(std::size_t level) const { return parts_[level]; }

  // The group of `level` that holds `node` (a member, or a group of the level below).
  std::uint32_t GroupOf(std::size_t level, std::uint32_t node) const {
    const auto& ends = ends_[level];
    return static_cast<std::uint32_t>(std::upper_bound(ends.begin(), ends.end(), node) -
                                      ends.begin());
  }

  // Those who reduce the piece of `path` in the group of `level` around `self`.
  Team TeamOf(std::size_t level, const std::vector<std::uint32_t>& path, Member self) const;

  // Which of a team's blocks holds a part.
  std::uint32_t BlockOf(std::size_t level, std::uint32_t team_size, std::uint32_t part) const {
    const std::uint64_t blocks = BlockCount(levels_[level].algorithm, team_size);
    return static_cast<std::uint32_t>(part * blocks / parts_[level]);
  }

  Algorithm AlgorithmAt(std::size_t level) const { return levels_[level].algorithm; }

  // One group holds everybody, so what it has reduced is complete.
  bool CompleteAt(std::size_t level) const { return levels_[level].groups.size() == 1; }

 private:
  Member Representative(std::size_t level,
                        std::uint32_t node,
                        const std::vector<std::uint32_t>& path) const;

  const std::vector<Level>& levels_;
  std::vector<std::vector<std::uint32_t>> ends_;  // by level and group: one past its last node
  std::vector<std::uint32_t> parts_;
};

Hierarchy::Hierarchy(const std::vector<Level>& levels) : levels_(levels) {
  for (const Level& level : levels) {
    auto& ends = ends_.emplace_back(level.groups.size());
    std::partial_sum(level.groups.begin(), level.groups.end(), ends.begin());
    std::uint32_t parts = 1;
    for (const std::uint32_t size : level.groups) {
      parts = std::max(parts, BlockCount(level.algorithm, size));
    }
    parts_.push_back(parts);
  }
}

// Of a node of `level`, the member that owns the piece of `path` (one part for each level below).
Member Hierarchy::Representative(std::size_t level,
                                 std::uint32_t node,
                                 const std::vector<std::uint32_t>& path) const {
  for (; level > 0; --level) {
    const std::size_t below = level - 1;
    const std::uint32_t size = levels_[below].groups[node];
    const std::uint32_t block = BlockOf(below, size, path[below]);
    node = ends_[below][node] - size + OwnerOf(levels_[below].algorithm, size, block);
  }
  return Member(node);
}

Team Hierarchy::TeamOf(std::size_t level,
                       const std::vector<std::uint32_t>& path,
                       Member self) const {
  std::uint32_t own_node = self.value();
  for (std::size_t below = 0; below < level; ++below) {
    own_node = GroupOf(below, own_node);
  }
  const std::uint32_t group = GroupOf(level, own_node);
  const std::uint32_t size = levels_[level].groups[group];
  const std::uint32_t first = ends_[level][group] - size;
  Team team;
  team.self = own_node - first;
  for (std::uint32_t node = first; node < first + size; ++node) {
    team.members.push_back(Representative(level, node, path));
  }
  MAYPOLE_CHECK(team.at(team.self) == self);
  return team;
}

ElementRange PartOf(ElementRange range, std::uint32_t parts, std::uint32_t part) {
  const ElementRange chunk = ChunkOf(range.size(), parts, part);
  return {range.begin + chunk.begin, range.begin + chunk.end};
}

// The units of the piece `range` at `level`: its parts' parts' ... slices.
void AppendUnits(const Hierarchy& hierarchy,
                 std::size_t level,
                 ElementRange range,
                 ElementCount slice_elements,
                 std::vector<ElementRange>& units) {
  if (level == hierarchy.size()) {
    const auto slices = SlicesOf(range, slice_elements);
    units.insert(units.end(), slices.begin(), slices.end());
    return;
  }
  for (std::uint32_t part = 0; part < hierarchy.PartsAt(level); ++part) {
    AppendUnits(
        hierarchy, level + 1, PartOf(range, hierarchy.PartsAt(level), part), slice_elements, units);
  }
}

// The steps of one member.
class Composer {
 public:
  explicit Composer(const Shape& shape);

  Schedule Compose();

 private:
  // A piece that this member helps to reduce at a level.
  struct Task {
    Team team;
    std::vector<Block> blocks;
  };

  Block UnitsOf(ElementRange range) const;
  Task TaskFor(std::size_t level, const Piece& piece, std::vector<Piece>& owned) const;

  const Shape& shape_;
  Hierarchy hierarchy_;
  std::vector<ElementRange> units_;
};

Composer::Composer(const Shape& shape) : shape_(shape), hierarchy_(shape.levels) {
  AppendUnits(hierarchy_, 0, {0, shape.elements}, shape.slice_elements, units_);
}

Block Composer::UnitsOf(ElementRange range) const {
  const auto find = [&](ElementCount border) {
    return static_cast<UnitIndex>(
        std::partition_point(units_.begin(),
                             units_.end(),
                             [&](const ElementRange& unit) { return unit.begin < border; }) -
        units_.begin());
  };
  return {find(range.begin), find(range.end)};
}

// Parts that this member owns afterwards are added to `owned`.
Composer::Task Composer::TaskFor(std::size_t level,
                                 const Piece& piece,
                                 std::vector<Piece>& owned) const {
  Task task;
  task.team = hierarchy_.TeamOf(level, piece.path, shape_.self);
  const Algorithm algorithm = hierarchy_.AlgorithmAt(level);
  const std::uint32_t size = task.team.size();
  task.blocks.resize(BlockCount(algorithm, size), {piece.units.end, piece.units.end});
  const std::uint32_t parts = hierarchy_.PartsAt(level);
  for (std::uint32_t part = 0; part < parts; ++part) {
    const ElementRange range = PartOf(piece.range, parts, part);
    const Block units = UnitsOf(range);
    const std::uint32_t index = hierarchy_.BlockOf(level, size, part);
    Block& block = task.blocks[index];
    block = {std::min(block.begin, units.begin), units.end};
    if (OwnerOf(algorithm, size, index) == task.team.self) {
      owned.push_back({piece.path, range, units});
      owned.back().path.push_back(part);
    }
  }
  return task;
}

Schedule Composer::Compose() {
  Flow flow(Algorithm::kHierarchical, shape_, units_);
  std::vector<Piece> pieces = {{{}, {0, shape_.elements}, UnitsOf({0, shape_.elements})}};
  std::vector<std::vector<Task>> tasks(hierarchy_.size());
  for (std::size_t level = 0; level < hierarchy_.size(); ++level) {
    std::vector<Piece> owned;
    for (const Piece& piece : pieces) {
      tasks[level].push_back(TaskFor(level, piece, owned));
      const Task& task = tasks[level].back();
      AppendReduce(hierarchy_.AlgorithmAt(level),
                   flow,
                   task.team,
                   task.blocks,
                   hierarchy_.CompleteAt(level));
    }
    pieces = std::move(owned);
  }
  for (std::size_t level = hierarchy_.size(); level-- > 0;) {
    for (const Task& task : tasks[level]) {
      AppendSpread(hierarchy_.AlgorithmAt(level), flow, task.team, task.blocks);
    }
  }
  return flow.Finish();
}

std::string LevelProblem(const Level& level, std::size_t index, std::uint32_t nodes) {
  const std::string name = "level " + std::to_string(index) + " of the hierarchy ";
  if (!HasPhases(level.algorithm)) {
    return name + "uses " + std::string(Name(level.algorithm)) +
           "; it must be ring, direct, tree, double_tree or halving";
  }
  if (std::find(level.groups.begin(), level.groups.end(), 0U) != level.groups.end()) {
    return name + "has an empty group";
  }
  const auto sum = std::accumulate(level.groups.begin(), level.groups.end(), std::uint64_t{0});
  if (sum != nodes) {
    return name + "groups " + std::to_string(sum) + " instead of " + std::to_string(nodes);
  }
  return "";
}

}  // namespace

std::string HierarchyProblem(const Shape& shape) {
  if (shape.levels.empty()) {
    return "no levels are known";
  }
  std::uint32_t nodes = shape.members;
  for (std::size_t level = 0; level < shape.levels.size(); ++level) {
    if (std::string problem = LevelProblem(shape.levels[level], level, nodes); !problem.empty()) {
      return problem;
    }
    nodes = static_cast<std::uint32_t>(shape.levels[level].groups.size());
  }
  return nodes == 1 ? ""
                    : "the last level of the hierarchy has " + std::to_string(nodes) +
                          " groups; it must be one group";
}

std::vector<Level> EvenLevels(const std::vector<std::uint32_t>& sizes,
                              const std::vector<Algorithm>& algorithms) {
  MAYPOLE_CHECK(!sizes.empty() && sizes.size() == algorithms.size());
  std::vector<Level> levels(sizes.size());
  std::uint32_t groups = 1;
  for (std::size_t level = sizes.size(); level-- > 0;) {
    levels[level] = {std::vector<std::uint32_t>(groups, sizes[level]), algorithms[level]};
    groups *= sizes[level];
  }
  return levels;
}

Schedule MakeHierarchicalAllReduce(const Shape& shape) {
  MAYPOLE_CHECK(HierarchyProblem(shape).empty());
  if (shape.members == 1) {
    return CopyOfInput(Algorithm::kHierarchical, shape);
  }
  return Composer(shape).Compose();
}

}  // namespace maypole::collective
