// Inputs whose reduction is known exactly, and the comparison with it, for `maypole bench --check`.
// Pure.
//
// The inputs are small whole numbers, so that every order of summing gives the same bits: exact in
// the accumulator, rounded once to the type at the end. Integers wrap as the promise says, and
// their mean truncates toward zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/dtype.h"

namespace maypole::cli {

struct ValueShape {
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  std::uint32_t ranks = 1;
};

// Writes the input of `rank` over `memory`.
void FillInput(const ValueShape& shape, std::uint32_t rank, std::span<std::byte> memory);

// How many elements of `memory` are not the reduction of all ranks' inputs, from element `first`
// on.
std::uint64_t CountWrong(const ValueShape& shape,
                         std::span<const std::byte> memory,
                         std::size_t first = 0);

// How many are not the input of `rank`, from its element `first` on.
std::uint64_t CountUnlike(const ValueShape& shape,
                          std::uint32_t rank,
                          std::span<const std::byte> memory,
                          std::size_t first);

}  // namespace maypole::cli
