#include "collective/slices.h"

#include "common/check.h"

namespace maypole::collective {
namespace {

constexpr ElementCount kAlignedElements = 64;

ElementCount RoundUp(ElementCount value, ElementCount unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

std::vector<ElementRange> SlicesOf(ElementRange range, ElementCount slice_elements) {
  MAYPOLE_CHECK(slice_elements > 0);
  const ElementCount size = range.size();
  const ElementCount count = size / slice_elements + (size % slice_elements != 0 ? 1 : 0);
  // Rounding inner borders up never makes a slice too long, because the limit is a multiple of the
  // unit, nor empty, because the even share is more than half the limit.
  const ElementCount unit = slice_elements % kAlignedElements == 0 ? kAlignedElements : 1;
  std::vector<ElementRange> slices;
  slices.reserve(count);
  ElementCount begin = 0;
  for (ElementCount index = 1; index <= count; ++index) {
    const ElementCount even = size / count * index + size % count * index / count;
    const ElementCount end = index == count ? size : RoundUp(even, unit);
    slices.push_back({range.begin + begin, range.begin + end});
    begin = end;
  }
  return slices;
}

}  // namespace maypole::collective
