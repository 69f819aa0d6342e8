#include "collective/ring.h"

#include <algorithm>
#include <cstddef>

#include "collective/builder.h"
#include "collective/slices.h"

namespace maypole::collective {
namespace {

// What `builder`'s member receives in `round`, which is its `slice`.
StepIndex AppendReceive(ScheduleBuilder& builder, std::uint32_t round, ElementRange slice) {
  const std::uint32_t last_hop = builder.shape().members - 2;
  const Member from = builder.Previous(1);
  if (round > last_hop) {
    return builder.Receive(slice, from, Buffer::kResult);
  }
  const Buffer target = round == last_hop ? Buffer::kResult : Buffer::kPartial;
  return builder.ReceiveReduce(Buffer::kInput, slice, from, target);
}

Buffer SourceOf(std::uint32_t round, std::uint32_t members) {
  if (round == 0) {
    return Buffer::kInput;
  }
  return round < members - 1 ? Buffer::kPartial : Buffer::kResult;
}

}  // namespace

Schedule MakeRingAllReduce(const Shape& shape) {
  ScheduleBuilder builder(Algorithm::kRing, shape);
  if (shape.members == 1) {
    builder.CopyAll();
    return builder.Take();
  }
  const auto slices_of = [&](Member chunk) {
    return SlicesOf(ChunkOf(shape.elements, shape.members, chunk.value()), shape.slice_elements);
  };
  // What this round sends arrived in the round before, by the steps of `arrivals`.
  std::vector<ElementRange> outgoing = slices_of(shape.self);
  std::vector<StepIndex> arrivals(outgoing.size(), kNoStep);
  for (std::uint32_t round = 0; round < 2 * (shape.members - 1); ++round) {
    const std::vector<ElementRange> incoming = slices_of(builder.Previous(round + 1));
    std::vector<StepIndex> next_arrivals(incoming.size());
    for (std::size_t k = 0; k < std::max(outgoing.size(), incoming.size()); ++k) {
      if (k < outgoing.size()) {
        const Buffer source = SourceOf(round, shape.members);
        builder.Send(source, outgoing[k], builder.Next(1), {.first = arrivals[k]});
      }
      if (k < incoming.size()) {
        next_arrivals[k] = AppendReceive(builder, round, incoming[k]);
      }
    }
    outgoing = incoming;
    arrivals = std::move(next_arrivals);
  }
  return builder.Take();
}

}  // namespace maypole::collective
