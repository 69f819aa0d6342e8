#include "collective/exchange.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "collective/builder.h"
#include "collective/parts.h"
#include "collective/slices.h"

namespace maypole::collective {
namespace {

// A slice of a part. Both ends list the messages of a pair in the order of units.
struct Unit {
  ElementRange range;
  bool is_sum = false;
};

using Units = std::vector<Unit>;

// The units that move from `from` to `to`, two members or twice the same.
Units UnitsBetween(const Shape& shape, std::uint32_t from, std::uint32_t to) {
  Units units;
  for (const Part& part : shape.parts) {
    if (part.ComesFrom(from) && part.GoesTo(to)) {
      for (const ElementRange slice : SlicesOf(part.range, shape.slice_elements)) {
        units.push_back({slice, part.is_sum()});
      }
    }
  }
  return units;
}

// One of each peer in turn, nearest successor first.
void AppendSends(ScheduleBuilder& builder) {
  const Shape& shape = builder.shape();
  std::vector<Units> by_distance;
  std::size_t rows = 0;
  for (std::uint32_t distance = 1; distance < shape.members; ++distance) {
    by_distance.push_back(UnitsBetween(shape, shape.self.value(), builder.Next(distance).value()));
    rows = std::max(rows, by_distance.back().size());
  }
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::uint32_t distance = 1; distance < shape.members; ++distance) {
      if (const Units& units = by_distance[distance - 1]; row < units.size()) {
        builder.Send(Buffer::kInput, units[row].range, builder.Next(distance));
      }
    }
  }
}

void AppendReceives(ScheduleBuilder& builder) {
  const Shape& shape = builder.shape();
  for (std::uint32_t distance = 1; distance < shape.members; ++distance) {
    const Member peer = builder.Previous(distance);
    for (const Unit& unit : UnitsBetween(shape, peer.value(), shape.self.value())) {
      if (!unit.is_sum) {
        builder.Receive(unit.range, peer, Buffer::kResult);
      }
    }
  }
}

// The sums that this member gets, and what it has to itself.
void AppendOwn(ScheduleBuilder& builder) {
  const Shape& shape = builder.shape();
  const std::uint32_t self = shape.self.value();
  for (const Unit& unit : UnitsBetween(shape, self, self)) {
    if (unit.is_sum && shape.members > 1) {
      builder.SumInOrder(unit.range);
    } else {
      builder.Copy(unit.range);
    }
  }
}

}  // namespace

Schedule MakeExchange(const Shape& shape) {
  ScheduleBuilder builder(Algorithm::kDirect, shape);
  AppendSends(builder);
  AppendReceives(builder);
  AppendOwn(builder);
  return builder.Take();
}

}  // namespace maypole::collective
