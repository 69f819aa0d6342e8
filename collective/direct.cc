#include "collective/direct.h"

#include <algorithm>
#include <cstddef>

#include "collective/builder.h"
#include "collective/slices.h"

namespace maypole::collective {
namespace {

using Slices = std::vector<ElementRange>;

// Slice `k` of every chunk: inputs out, the own sum, results out, results in. Both ends list the
// messages of a pair in this order.
void AppendSlice(ScheduleBuilder& builder, const std::vector<Slices>& chunks, std::size_t k) {
  const Shape& shape = builder.shape();
  for (std::uint32_t distance = 1; distance < shape.members; ++distance) {
    const Member owner = builder.Next(distance);
    if (const Slices& theirs = chunks[owner.value()]; k < theirs.size()) {
      builder.Send(Buffer::kInput, theirs[k], owner);
    }
  }
  if (const Slices& own = chunks[shape.self.value()]; k < own.size()) {
    const StepIndex sum = builder.SumInOrder(own[k]);
    for (std::uint32_t distance = 1; distance < shape.members; ++distance) {
      builder.Send(Buffer::kResult, own[k], builder.Next(distance), {.first = sum});
    }
  }
  for (std::uint32_t distance = 1; distance < shape.members; ++distance) {
    const Member owner = builder.Previous(distance);
    if (const Slices& theirs = chunks[owner.value()]; k < theirs.size()) {
      builder.Receive(theirs[k], owner, Buffer::kResult);
    }
  }
}

}  // namespace

Schedule MakeDirectAllReduce(const Shape& shape) {
  ScheduleBuilder builder(Algorithm::kDirect, shape);
  if (shape.members == 1) {
    builder.CopyAll();
    return builder.Take();
  }
  std::vector<Slices> chunks;
  std::size_t rows = 0;
  for (std::uint32_t chunk = 0; chunk < shape.members; ++chunk) {
    chunks.push_back(SlicesOf(ChunkOf(shape.elements, shape.members, chunk), shape.slice_elements));
    rows = std::max(rows, chunks.back().size());
  }
  for (std::size_t k = 0; k < rows; ++k) {
    AppendSlice(builder, chunks, k);
  }
  return builder.Take();
}

}  // namespace maypole::collective
