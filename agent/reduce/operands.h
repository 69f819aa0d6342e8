// How one element of a ReduceWork is loaded, reduced and stored: the plain form that the reference
// is made of, and with which the kernels treat what does not fill a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "agent/reduce/arithmetic.h"
#include "agent/reduce/work.h"

namespace maypole::agent {

// The work moves bits and computes nothing: a NaN keeps its payload.
inline bool IsCopy(const ReduceWork& work) {
  if (work.inputs.size() != 1 || work.received.buffer.address != nullptr || work.divisor != 0) {
    return false;
  }
  for (const Operand& output : work.outputs) {
    if (output.dtype != work.inputs.front().dtype) {
      return false;
    }
  }
  return true;
}

template <typename T>
T* ElementsOf(const Operand& operand) {
  return reinterpret_cast<T*>(operand.buffer.address);
}

template <typename A>
A LoadElement(const Operand& operand, ElementCount i) {
  if constexpr (std::is_same_v<A, float>) {
    if (operand.dtype == DType::kF16) {
      return F32FromF16(ElementsOf<std::uint16_t>(operand)[i]);
    }
    if (operand.dtype == DType::kBF16) {
      return F32FromBF16(ElementsOf<std::uint16_t>(operand)[i]);
    }
  }
  return ElementsOf<A>(operand)[i];
}

template <typename A>
void StoreElement(const Operand& operand, ElementCount i, A value) {
  if constexpr (std::is_same_v<A, float>) {
    if (operand.dtype == DType::kF16) {
      ElementsOf<std::uint16_t>(operand)[i] = F16FromF32(value);
      return;
    }
    if (operand.dtype == DType::kBF16) {
      ElementsOf<std::uint16_t>(operand)[i] = BF16FromF32(value);
      return;
    }
  }
  ElementsOf<A>(operand)[i] = value;
}

template <typename A, Reduction kReduction>
void ReduceElement(const ReduceWork& work, ElementCount i) {
  A value = LoadElement<A>(work.inputs.front(), i);
  for (std::size_t j = 1; j < work.inputs.size(); ++j) {
    value = CombineElements<kReduction>(value, LoadElement<A>(work.inputs[j], i));
  }
  if (work.received.buffer.address != nullptr) {
    value = CombineElements<kReduction>(LoadElement<A>(work.received, i), value);
  }
  if (work.divisor != 0) {
    value = DivideBy(value, work.divisor);
  }
  value = Canonical(value);
  for (const Operand& output : work.outputs) {
    StoreElement(output, i, value);
  }
}

}  // namespace maypole::agent
