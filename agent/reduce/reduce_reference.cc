#include <cstring>

#include "agent/reduce/operands.h"
#include "agent/reduce/work.h"

namespace maypole::agent {
namespace {

template <typename A>
void ReduceOne(const ReduceWork& work, ElementCount i) {
  switch (work.reduction) {
    case Reduction::kSum:
    case Reduction::kMean:
      return ReduceElement<A, Reduction::kSum>(work, i);
    case Reduction::kMin:
      return ReduceElement<A, Reduction::kMin>(work, i);
    case Reduction::kMax:
      return ReduceElement<A, Reduction::kMax>(work, i);
    case Reduction::kProduct:
      return ReduceElement<A, Reduction::kProduct>(work, i);
  }
}

void ReduceOne(const ReduceWork& work, ElementCount i) {
  switch (work.accumulator) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return ReduceOne<float>(work, i);
    case DType::kF64:
      return ReduceOne<double>(work, i);
    case DType::kI8:
      return ReduceOne<std::int8_t>(work, i);
    case DType::kU8:
      return ReduceOne<std::uint8_t>(work, i);
    case DType::kI32:
      return ReduceOne<std::int32_t>(work, i);
    case DType::kI64:
      return ReduceOne<std::int64_t>(work, i);
  }
}

void CopyOne(const ReduceWork& work, ElementCount i) {
  const Operand& input = work.inputs.front();
  const std::size_t bytes = SizeOf(input.dtype);
  for (const Operand& output : work.outputs) {
    std::memmove(output.buffer.address + i * bytes, input.buffer.address + i * bytes, bytes);
  }
}

}  // namespace

void ReduceReference(const ReduceWork& work) {
  for (const ReduceWork::Save& save : work.saves) {
    std::memcpy(save.target.address, save.source.address, save.source.bytes);
  }
  const bool is_copy = IsCopy(work);
  for (ElementCount i = 0; i < work.elements; ++i) {
    is_copy ? CopyOne(work, i) : ReduceOne(work, i);
  }
}

}  // namespace maypole::agent
