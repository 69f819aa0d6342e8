#include "collective/naive.h"

#include "collective/builder.h"
#include "collective/slices.h"

namespace maypole::collective {

Schedule MakeNaiveAllReduce(const Shape& shape) {
  ScheduleBuilder builder(Algorithm::kNaive, shape);
  if (shape.members == 1) {
    builder.CopyAll();
    return builder.Take();
  }
  for (const ElementRange slice : SlicesOf({0, shape.elements}, shape.slice_elements)) {
    StepIndex sent = kNoStep;
    for (std::uint32_t distance = 1; distance < shape.members; ++distance) {
      sent = builder.Send(Buffer::kInput, slice, builder.Next(distance), {.first = sent});
    }
    builder.SumInOrder(slice, sent);
  }
  return builder.Take();
}

}  // namespace maypole::collective
