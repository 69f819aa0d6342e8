#include "tests/sim/workload.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "agent/reduce/work.h"
#include "collective/select.h"

namespace maypole::sim {
namespace {

using agent::BufferView;
using agent::Operand;
using agent::ReduceWork;

constexpr std::align_val_t kAlignment{64};

BufferView Part(const Bytes& tensor, DType dtype, ElementRange range) {
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
    work.inputs.push_back({Part(*rank, op.dtype, range), op.dtype});
  }
  work.outputs.push_back({sum.view(), accumulator});
  ReduceReference(work);
}

// The fold over all members, beginning with member `first`, finished and rounded once.
void Fold(const OpSpec& op,
          const std::vector<std::vector<const Bytes*>>& inputs,
          std::size_t first,
          ElementRange range,
          BufferView result) {
  const DType accumulator = AccumulatorOf(op.dtype);
  const Bytes sum(range.size() * SizeOf(accumulator));
  const Bytes next(range.size() * SizeOf(accumulator));
  std::uint64_t world = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const auto& ranks = inputs[(first + k) % inputs.size()];
    world += ranks.size();
    LocalSum(op, ranks, range, k == 0 ? sum : next);
    if (k > 0) {
      ReduceWork work{
          .accumulator = accumulator, .reduction = op.reduction, .elements = range.size()};
      work.inputs.push_back({next.view(), accumulator});
      work.received = {sum.view(), accumulator};
      work.outputs.push_back({sum.view(), accumulator});
      ReduceReference(work);
    }
  }
  ReduceWork finish{.accumulator = accumulator,
                    .reduction = op.reduction,
                    .elements = range.size(),
                    .divisor = op.reduction == Reduction::kMean ? world : 0};
  finish.inputs.push_back({sum.view(), accumulator});
  finish.outputs.push_back({result, op.dtype});
  ReduceReference(finish);
}

template <typename T>
std::unique_ptr<Bytes> Floats(Random& random, ElementCount elements) {
  auto bytes = std::make_unique<Bytes>(elements * sizeof(T));
  for (ElementCount i = 0; i < elements; ++i) {
    const auto mantissa = static_cast<T>(random.In(1, 2000)) / static_cast<T>(777);
    const T value = std::ldexp(mantissa, static_cast<int>(random.In(0, 12)) - 8);
    const T signed_value = random.Chance(0.5) ? -value : value;
    std::memcpy(bytes->data() + i * sizeof(T), &signed_value, sizeof(T));
  }
  return bytes;
}

template <typename T>
double WorstError(const OpSpec& op,
                  const std::vector<std::vector<const Bytes*>>& inputs,
                  const std::vector<std::byte>& result) {
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

ElementCount PickElements(Random& random, std::uint32_t members, std::uint64_t slice) {
  const ElementCount p = members;
  const ElementCount edges[] = {0, 1, p - 1, p, p + 1, 2 * p + 1, slice - 1, slice, slice + 1};
  switch (random.In(0, 3)) {
    case 0:
      return edges[random.In(0, std::size(edges) - 1)];
    case 1:
      return random.In(1, 40);
    case 2:
      return random.In(1, 4 * slice);
    default:
      return random.In(1, 3 * slice * members);
  }
}

}  // namespace

Bytes::Bytes(std::uint64_t size)
    : size_(size),
      data_(static_cast<std::byte*>(::operator new(std::max<std::uint64_t>(size, 1), kAlignment))) {
}

void Bytes::Free::operator()(std::byte* address) const {
  ::operator delete(address, kAlignment);
}

bool operator==(const Bytes& a, const Bytes& b) {
  return a.size_ == b.size_ && std::memcmp(a.data(), b.data(), a.size_) == 0;
}

std::vector<OpSpec> MakeOps(Random& random,
                            std::uint32_t world_size,
                            std::uint32_t members,
                            const WorkloadOptions& options,
                            bool with_errors) {
  std::vector<OpSpec> ops(random.In(1, 8));
  for (std::size_t i = 0; i < ops.size(); ++i) {
    OpSpec& op = ops[i];
    // Some names are used more than once: the occurrence tells them apart.
    op.name = random.Chance(0.1) ? "" : "layer" + std::to_string(random.In(0, 5));
    op.algorithm = static_cast<collective::Algorithm>(random.In(0, 3));
    op.dtype = static_cast<DType>(random.In(0, kDTypeCount - 1));
    op.reduction = static_cast<Reduction>(random.In(0, kReductionCount - 1));
    op.elements = PickElements(random, members, options.slice_elements);
    op.priority = static_cast<std::int32_t>(random.In(0, 4)) - 2;
    if (random.Chance(0.1)) {
      op.collective = collective::Collective::kBarrier;
      op.elements = 0;
    }
    if (with_errors && world_size > 1 && random.Chance(0.15)) {
      op.differs_at = static_cast<std::uint32_t>(random.In(0, world_size - 1));
    } else if (with_errors && world_size > 1 && random.Chance(0.1)) {
      op.forgotten_by = static_cast<std::uint32_t>(random.In(0, world_size - 1));
      op.timeout = std::chrono::milliseconds(random.In(50, 8000));
      op.name = "forgotten" + std::to_string(i);  // later uses of the name would not match
    }
  }
  return ops;
}

std::unique_ptr<Bytes> MakeInput(Random& random, DType dtype, ElementCount elements) {
  if (dtype == DType::kF32) {
    return Floats<float>(random, elements);
  }
  if (dtype == DType::kF64) {
    return Floats<double>(random, elements);
  }
  auto bytes = std::make_unique<Bytes>(elements * SizeOf(dtype));
  if (AccumulatorOf(dtype) == dtype) {
    std::generate_n(bytes->data(), bytes->size(), [&] { return std::byte(random.In(0, 255)); });
    return bytes;
  }
  const auto wide = Floats<float>(random, elements);
  ReduceWork convert{.accumulator = DType::kF32, .elements = elements};
  convert.inputs.push_back({wide->view(), DType::kF32});
  convert.outputs.push_back({bytes->view(), dtype});
  ReduceReference(convert);
  return bytes;
}

std::vector<std::byte> ExpectedResult(const OpSpec& op,
                                      const std::vector<std::vector<const Bytes*>>& inputs) {
  const auto members = static_cast<std::uint32_t>(inputs.size());
  const std::uint64_t size = SizeOf(op.dtype);
  std::vector<std::byte> result(op.elements * size);
  const bool is_ring =
      collective::Select(op.collective, op.elements * size, members, op.dtype, op.algorithm)
          .algorithm == collective::Algorithm::kRing;
  for (std::uint32_t chunk = 0; chunk < members; ++chunk) {
    const ElementRange range = collective::ChunkOf(op.elements, members, chunk);
    Fold(op,
         inputs,
         is_ring ? chunk : 0,
         range,
         {.address = result.data() + range.begin * size, .bytes = range.size() * size});
  }
  return result;
}

double ErrorAgainstFloat64(const OpSpec& op,
                           const std::vector<std::vector<const Bytes*>>& inputs,
                           const std::vector<std::byte>& result) {
  return op.dtype == DType::kF64 ? WorstError<double>(op, inputs, result)
                                 : WorstError<float>(op, inputs, result);
}

}  // namespace maypole::sim
