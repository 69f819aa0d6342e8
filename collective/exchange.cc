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

// What a member sends to and receives from each member, itself among them.
struct Traffic {
  std::vector<Units> to;
  std::vector<Units> from;  // without sums
};

void Append(const Units& units, std::uint32_t end, std::vector<Units>& by_member) {
  const bool is_all = end == kEverybody;
  for (std::uint32_t i = is_all ? 0 : end; i < (is_all ? by_member.size() : end + 1); ++i) {
    by_member[i].insert(by_member[i].end(), units.begin(), units.end());
  }
}

Traffic TrafficOf(const Shape& shape) {
  Traffic traffic{.to = std::vector<Units>(shape.members),
                  .from = std::vector<Units>(shape.members)};
  const std::uint32_t self = shape.self.value();
  for (const Part& part : shape.parts) {
    if (!part.ComesFrom(self) && !part.GoesTo(self)) {
      continue;
    }
    Units units;
    for (const ElementRange slice : SlicesOf(part.range, shape.slice_elements)) {
      units.push_back({slice, part.is_sum()});
    }
    if (part.ComesFrom(self)) {
      Append(units, part.to, traffic.to);
    }
    if (part.GoesTo(self) && !part.is_sum()) {
      Append(units, part.from, traffic.from);
    }
  }
  return traffic;
}

// One to each peer in turn, nearest successor first.
void AppendSends(const std::vector<Units>& to, ScheduleBuilder& builder) {
  const Shape& shape = builder.shape();
  std::size_t rows = 0;
  for (std::uint32_t distance = 1; distance < shape.members; ++distance) {
    rows = std::max(rows, to[builder.Next(distance).value()].size());
  }
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::uint32_t distance = 1; distance < shape.members; ++distance) {
      const Member peer = builder.Next(distance);
      if (const Units& units = to[peer.value()]; row < units.size()) {
        builder.Send(Buffer::kInput, units[row].range, peer);
      }
    }
  }
}

void AppendReceives(const std::vector<Units>& from, ScheduleBuilder& builder) {
  for (std::uint32_t distance = 1; distance < builder.shape().members; ++distance) {
    const Member peer = builder.Previous(distance);
    for (const Unit& unit : from[peer.value()]) {
      builder.Receive(unit.range, peer, Buffer::kResult);
    }
  }
}

// The sums that this member gets, and what it has to itself.
void AppendOwn(const Units& own, ScheduleBuilder& builder) {
  for (const Unit& unit : own) {
    if (unit.is_sum && builder.shape().members > 1) {
      builder.SumInOrder(unit.range);
    } else {
      builder.Copy(unit.range);
    }
  }
}

}  // namespace

Schedule MakeExchange(const Shape& shape) {
  ScheduleBuilder builder(Algorithm::kDirect, shape);
  const Traffic traffic = TrafficOf(shape);
  AppendSends(traffic.to, builder);
  AppendReceives(traffic.from, builder);
  AppendOwn(traffic.to[shape.self.value()], builder);
  return builder.Take();
}

}  // namespace maypole::collective
