#include "tests/sim/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "agent/reduce/work.h"
#include "collective/select.h"
#include "collective/tree.h"

namespace maypole::sim {
namespace {

using agent::BufferView;
using agent::ReduceWork;

BufferView Cut(const Bytes& tensor, DType dtype, ElementRange range) {
  const std::uint64_t size = SizeOf(dtype);
  return tensor.view().Sub(range.begin * size, range.size() * size);
}

// The left fold of one member's ranks.
void LocalSum(const OpSpec& op,
              const std::vector<const Bytes*>& ranks,
              ElementRange range,
              const Bytes& sum) {
  const DType accumulator = AccumulatorOf(op.dtype);
  ReduceWork work{.accumulator = accumulator, .reduction = op.reduction, .elements = range.size()};
  for (const Bytes* rank : ranks) {
    work.inputs.push_back({Cut(*rank, op.dtype, range), op.dtype});
  }
  work.outputs.push_back({sum.view(), accumulator});
  ReduceReference(work);
}

// sum = combine(received, sum)
void Combine(const OpSpec& op, const Bytes& received, const Bytes& sum, ElementCount elements) {
  const DType accumulator = AccumulatorOf(op.dtype);
  ReduceWork work{.accumulator = accumulator, .reduction = op.reduction, .elements = elements};
  work.inputs.push_back({sum.view(), accumulator});
  work.received = {received.view(), accumulator};
  work.outputs.push_back({sum.view(), accumulator});
  ReduceReference(work);
}

// Divided for a mean, and rounded once.
void Finish(const OpSpec& op, const Inputs& inputs, const Bytes& sum, BufferView result) {
  std::uint64_t world = 0;
  for (const auto& ranks : inputs) {
    world += ranks.size();
  }
  const DType accumulator = AccumulatorOf(op.dtype);
  ReduceWork work{.accumulator = accumulator,
                  .reduction = op.reduction,
                  .elements = result.bytes / SizeOf(op.dtype),
                  .divisor = op.reduction == Reduction::kMean ? world : 0};
  work.inputs.push_back({sum.view(), accumulator});
  work.outputs.push_back({result, op.dtype});
  ReduceReference(work);
}

Bytes SumOf(const OpSpec& op, const std::vector<const Bytes*>& ranks, ElementRange range) {
  Bytes sum(range.size() * SizeOf(AccumulatorOf(op.dtype)));
  LocalSum(op, ranks, range, sum);
  return sum;
}

// The fold over all members, beginning with member `first`.
Bytes Fold(const OpSpec& op, const Inputs& inputs, std::size_t first, ElementRange range) {
  Bytes sum = SumOf(op, inputs[first % inputs.size()], range);
  for (std::size_t k = 1; k < inputs.size(); ++k) {
    const Bytes next = SumOf(op, inputs[(first + k) % inputs.size()], range);
    Combine(op, sum, next, range.size());
    std::memcpy(sum.data(), next.data(), sum.size());
  }
  return sum;
}

// Up the tree of collective/tree.h whose root is member `root`, from the member at `index` on.
Bytes Climb(const OpSpec& op,
            const Inputs& inputs,
            std::uint32_t root,
            std::uint32_t index,
            ElementRange range) {
  const auto size = static_cast<std::uint32_t>(inputs.size());
  Bytes sum = SumOf(op, inputs[(root + index) % size], range);
  const auto place = collective::PlaceInTree(collective::TreeKind::kFirst, size, index);
  for (const std::uint32_t child : place.children) {
    Combine(op, Climb(op, inputs, root, child, range), sum, range.size());
  }
  return sum;
}

// What the one who gets a part gets.
Bytes SumForOwner(const OpSpec& op,
                  const Inputs& inputs,
                  std::uint32_t owner,
                  ElementRange range,
                  collective::Algorithm algorithm) {
  switch (algorithm) {
    case collective::Algorithm::kRing:
      return Fold(op, inputs, owner + 1, range);
    case collective::Algorithm::kTree:
      return Climb(op, inputs, owner, 0, range);
    default:
      return Fold(op, inputs, 0, range);
  }
}

template <typename T>
double WorstError(const OpSpec& op, const Inputs& inputs, const std::vector<std::byte>& result) {
  double worst = 0;
  for (ElementCount i = 0; i < op.elements; ++i) {
    double sum = 0;
    double magnitude = 0;
    double world = 0;
    for (const auto& ranks : inputs) {
      for (const Bytes* rank : ranks) {
        T value;
        std::memcpy(&value, rank->data() + i * sizeof(T), sizeof(T));
        sum += static_cast<double>(value);
        magnitude += std::fabs(static_cast<double>(value));
        world += 1;
      }
    }
    const double divisor = op.reduction == Reduction::kMean ? world : 1;
    T got;
    std::memcpy(&got, result.data() + i * sizeof(T), sizeof(T));
    worst =
        std::max(worst, std::fabs(static_cast<double>(got) - sum / divisor) * divisor / magnitude);
  }
  return worst;
}

collective::Algorithm AlgorithmOf(const OpSpec& op, std::size_t members) {
  return collective::Select(op.collective,
                            op.elements * SizeOf(op.dtype),
                            static_cast<std::uint32_t>(members),
                            op.dtype,
                            op.algorithm)
      .algorithm;
}

}  // namespace

Inputs ByMember(const collective::Placement& placement, const std::vector<const Bytes*>& tensors) {
  Inputs inputs(placement.empty() ? 0 : *std::max_element(placement.begin(), placement.end()) + 1);
  for (std::size_t rank = 0; rank < tensors.size(); ++rank) {
    inputs[placement[rank]].push_back(tensors[rank]);
  }
  return inputs;
}

std::vector<std::byte> ExpectedAllReduce(const OpSpec& op, const Inputs& inputs) {
  const auto members = static_cast<std::uint32_t>(inputs.size());
  const std::uint64_t size = SizeOf(op.dtype);
  std::vector<std::byte> result(op.elements * size);
  const bool is_ring = AlgorithmOf(op, members) == collective::Algorithm::kRing;
  for (std::uint32_t chunk = 0; chunk < members; ++chunk) {
    const ElementRange range = collective::ChunkOf(op.elements, members, chunk);
    Finish(op,
           inputs,
           Fold(op, inputs, is_ring ? chunk : 0, range),
           {.address = result.data() + range.begin * size, .bytes = range.size() * size});
  }
  return result;
}

std::vector<std::byte> ExpectedSpace(const OpSpec& op,
                                     const collective::Placement& placement,
                                     const std::vector<const Bytes*>& tensors) {
  const Inputs inputs = ByMember(placement, tensors);
  if (op.collective == collective::Collective::kAllReduce) {
    return ExpectedAllReduce(op, inputs);
  }
  const collective::Layout layout = LayoutOf(op, placement);
  const std::uint64_t size = SizeOf(op.dtype);
  std::vector<std::byte> space(SpaceOf(layout) * size);
  for (const collective::Part& part : PartsOf(layout)) {
    std::byte* at = space.data() + part.range.begin * size;
    if (part.is_sum()) {
      const Bytes sum =
          SumForOwner(op, inputs, placement[part.to], part.range, AlgorithmOf(op, inputs.size()));
      Finish(op, inputs, sum, {.address = at, .bytes = part.range.size() * size});
    } else {
      std::memcpy(
          at, tensors[part.from]->data() + part.input_begin * size, part.range.size() * size);
    }
  }
  return space;
}

void PutExpected(const OpSpec& op,
                 const collective::Placement& placement,
                 std::uint32_t rank,
                 const std::vector<std::byte>& space,
                 std::vector<std::byte>& result) {
  const std::uint64_t size = SizeOf(op.dtype);
  for (const collective::Part& part : PartsOf(LayoutOf(op, placement))) {
    if (part.GoesTo(rank)) {
      std::memcpy(result.data() + part.output_begin * size,
                  space.data() + part.range.begin * size,
                  part.range.size() * size);
    }
  }
}

double ErrorAgainstFloat64(const OpSpec& op,
                           const Inputs& inputs,
                           const std::vector<std::byte>& result) {
  return op.dtype == DType::kF64 ? WorstError<double>(op, inputs, result)
                                 : WorstError<float>(op, inputs, result);
}

}  // namespace maypole::sim
