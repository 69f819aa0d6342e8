#include "tests/sim/workload.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "agent/reduce/work.h"
#include "collective/parts.h"

namespace maypole::sim {
namespace {

using agent::ReduceWork;

constexpr std::align_val_t kAlignment{64};

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

collective::Collective PickCollective(Random& random, std::uint32_t world_size) {
  if (random.Chance(0.4)) {
    return collective::Collective::kAllReduce;
  }
  const auto any = static_cast<collective::Collective>(
      random.In(0, std::uint64_t{collective::kCollectiveCount} - 1));
  const bool is_alone = any == collective::Collective::kSendReceive && world_size == 1;
  return is_alone ? collective::Collective::kBroadcast : any;
}

// Of those whose association the reference knows.
collective::Algorithm PickAlgorithm(Random& random, collective::Collective collective) {
  const bool is_all_reduce = collective == collective::Collective::kAllReduce;
  const collective::Algorithm choices[] = {
      collective::Algorithm::kAuto,
      collective::Algorithm::kRing,
      collective::Algorithm::kDirect,
      is_all_reduce ? collective::Algorithm::kNaive : collective::Algorithm::kTree};
  const collective::Algorithm picked = choices[random.In(0, std::size(choices) - 1)];
  return IsAvailable(collective, picked) ? picked : collective::Algorithm::kAuto;
}

// The root, the pair, and blocks whose sizes fit the elements.
void PickRanks(Random& random, std::uint32_t world_size, OpSpec& op) {
  const auto any_rank = [&] { return static_cast<std::uint32_t>(random.In(0, world_size - 1)); };
  if (HasRoot(op.collective)) {
    op.root = any_rank();
  }
  if (op.collective == collective::Collective::kSendReceive) {
    op.peer = (op.root + 1 + static_cast<std::uint32_t>(random.In(0, world_size - 2))) % world_size;
  }
  if (HasCounts(op.collective) && random.Chance(0.5)) {
    const ElementCount block = 1 + 2 * op.elements / world_size;
    op.elements = 0;
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      op.counts.push_back(random.Chance(0.2) ? 0 : random.In(0, block));
      op.elements += op.counts.back();
    }
  } else if (HasBlocks(op.collective)) {
    op.elements -= op.elements % world_size;
  } else if (op.collective == collective::Collective::kBarrier) {
    op.elements = 0;
  }
}

std::uint32_t PickParticipant(Random& random, std::uint32_t world_size, const OpSpec& op) {
  if (op.collective == collective::Collective::kSendReceive) {
    return random.Chance(0.5) ? op.root : op.peer;
  }
  return static_cast<std::uint32_t>(random.In(0, world_size - 1));
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

collective::Layout LayoutOf(const OpSpec& op, const collective::Placement& placement) {
  return {.collective = op.collective,
          .elements = op.elements,
          .root = op.root,
          .peer = op.peer,
          .counts = op.counts,
          .placement = std::make_shared<const collective::Placement>(placement)};
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
    op.collective = PickCollective(random, world_size);
    op.algorithm = PickAlgorithm(random, op.collective);
    op.dtype = static_cast<DType>(random.In(0, kDTypeCount - 1));
    op.reduction = static_cast<Reduction>(random.In(0, kReductionCount - 1));
    op.elements = PickElements(random, members, options.slice_elements);
    PickRanks(random, world_size, op);
    op.priority = static_cast<std::int32_t>(random.In(0, 4)) - 2;
    if (with_errors && world_size > 1 && random.Chance(0.15)) {
      op.differs_at = PickParticipant(random, world_size, op);
    } else if (with_errors && world_size > 1 && random.Chance(0.1)) {
      op.forgotten_by = PickParticipant(random, world_size, op);
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

}  // namespace maypole::sim
