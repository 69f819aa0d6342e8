// Element types and reductions. The numbers are part of the client's C interface
// (client/include/maypole/maypole.h) and of the segment layout; they never change meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace maypole {

enum class DType : std::uint8_t {
  kF32 = 0,
  kF64 = 1,
  kF16 = 2,
  kBF16 = 3,
  kI8 = 4,
  kU8 = 5,
  kI32 = 6,
  kI64 = 7,
};
inline constexpr int kDTypeCount = 8;

enum class Reduction : std::uint8_t {
  kSum = 0,
  kMean = 1,
  kMin = 2,
  kMax = 3,
  kProduct = 4,
};
inline constexpr int kReductionCount = 5;

// Bytes of one element.
std::size_t SizeOf(DType dtype);

// The type in which partial results of `dtype` are kept and sent: f32 for the half types, else the
// type itself.
DType AccumulatorOf(DType dtype);

// "f32", "bf16", ...; "sum", "mean", ...
std::string_view Name(DType dtype);
std::string_view Name(Reduction reduction);

// Empty for a number or name that is none. Types also go by the names that frameworks have:
// "float32", "fp16", "int8".
std::optional<DType> DTypeFromNumber(std::uint32_t number);
std::optional<Reduction> ReductionFromNumber(std::uint32_t number);
std::optional<DType> DTypeFromName(std::string_view name);
std::optional<Reduction> ReductionFromName(std::string_view name);

}  // namespace maypole
