// Counts and ranges of elements. Bytes appear where memory and wire begin, never in a schedule.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>

namespace maypole {

// Number of elements of a tensor; 64 bits everywhere.
using ElementCount = std::uint64_t;

// [begin, end) in elements.
struct ElementRange {
  ElementCount begin = 0;
  ElementCount end = 0;

  constexpr ElementCount size() const { return end - begin; }

  constexpr bool empty() const { return begin == end; }

  constexpr bool overlaps(ElementRange other) const {
    return std::max(begin, other.begin) < std::min(end, other.end);
  }

  friend constexpr auto operator<=>(const ElementRange&, const ElementRange&) = default;

  friend std::ostream& operator<<(std::ostream& out, ElementRange range) {
    return out << '[' << range.begin << ',' << range.end << ')';
  }
};

}  // namespace maypole
