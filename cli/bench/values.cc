#include "cli/bench/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace maypole::cli {
namespace {

// Inputs repeat after this many elements; a prime, so that no chunk or slice boundary falls into
// step with it.
constexpr std::size_t kPeriod = 251;

std::uint32_t InputOf(const ValueShape& shape, std::uint32_t rank, std::size_t index) {
  const auto i = static_cast<std::uint32_t>(index % kPeriod);
  switch (shape.reduction) {
    case Reduction::kSum:
    case Reduction::kMin:
    case Reduction::kMax:
      return (i + rank) % 8;
    case Reduction::kMean:
      // The sum is a multiple of the number of ranks: the mean is exact.
      return i % 7 + shape.ranks * (rank % 2);
    case Reduction::kProduct:
      return rank % 4 == i % 4 ? 2 : 1;
  }
  return 0;
}

// The exact reduction; at most 2^(ranks/4 + 1) or so, which a double holds exactly up to infinity.
double ExactOf(const ValueShape& shape, std::size_t index) {
  double total = InputOf(shape, 0, index);
  for (std::uint32_t rank = 1; rank < shape.ranks; ++rank) {
    const double value = InputOf(shape, rank, index);
    switch (shape.reduction) {
      case Reduction::kSum:
      case Reduction::kMean:
        total += value;
        break;
      case Reduction::kMin:
        total = std::min(total, value);
        break;
      case Reduction::kMax:
        total = std::max(total, value);
        break;
      case Reduction::kProduct:
        total *= value;
        break;
    }
  }
  return total;
}

template <typename T>
T WrapTo(double exact) {
  // Beyond 2^63 only products of twos occur, whose low 64 bits are 0.
  return exact < 0x1p63 ? static_cast<T>(static_cast<std::uint64_t>(exact)) : T{0};
}

template <typename T>
T IntegerResult(const ValueShape& shape, double exact) {
  const T wrapped = WrapTo<T>(exact);
  return shape.reduction == Reduction::kMean
             ? static_cast<T>(static_cast<std::int64_t>(wrapped) /
                              static_cast<std::int64_t>(shape.ranks))
             : wrapped;
}

double FloatResult(const ValueShape& shape, double exact) {
  return shape.reduction == Reduction::kMean ? exact / shape.ranks : exact;
}

std::uint16_t ToBF16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if ((bits & 0x7f800000U) == 0x7f800000U) {
    return static_cast<std::uint16_t>(bits >> 16);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// For values that are 0, or 1 and more.
std::uint16_t ToF16(double value) {
  constexpr std::uint16_t kInfinity = 0x7c00;
  if (value == 0) {
    return 0;
  }
  int exponent = std::ilogb(value);
  double significand = std::nearbyint(std::ldexp(value, 10 - exponent));  // ties to even
  if (significand == 2048) {
    significand = 1024;
    ++exponent;
  }
  if (exponent > 15 || !std::isfinite(value)) {
    return kInfinity;
  }
  return static_cast<std::uint16_t>(((exponent + 15) << 10) +
                                    (static_cast<int>(significand) - 1024));
}

// `to_element` gives the element of an index.
template <typename T, typename ToElement>
std::vector<std::byte> Encode(std::size_t count, ToElement&& to_element) {
  std::vector<std::byte> bytes(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const T element = to_element(i);
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

template <typename T, typename Exact>
std::vector<std::byte> EncodeInteger(const ValueShape& shape, bool is_result, Exact&& exact) {
  return Encode<T>(kPeriod, [&](std::size_t i) {
    return is_result ? IntegerResult<T>(shape, exact(i)) : WrapTo<T>(exact(i));
  });
}

template <typename T, typename Exact, typename Convert>
std::vector<std::byte> EncodeFloat(const ValueShape& shape,
                                   bool is_result,
                                   Exact&& exact,
                                   Convert&& convert) {
  return Encode<T>(kPeriod, [&](std::size_t i) {
    return convert(is_result ? FloatResult(shape, exact(i)) : exact(i));
  });
}

// One period of elements as bytes. `exact` gives the whole number of an index; `is_result` says
// that it is a reduction of all ranks, still without the division of a mean.
template <typename Exact>
std::vector<std::byte> OnePeriod(const ValueShape& shape, bool is_result, Exact&& exact) {
  switch (shape.dtype) {
    case DType::kF32:
      return EncodeFloat<float>(
          shape, is_result, exact, [](double value) { return static_cast<float>(value); });
    case DType::kF64:
      return EncodeFloat<double>(shape, is_result, exact, [](double value) { return value; });
    case DType::kF16:
      return EncodeFloat<std::uint16_t>(shape, is_result, exact, ToF16);
    case DType::kBF16:
      return EncodeFloat<std::uint16_t>(shape, is_result, exact, ToBF16);
    case DType::kI8:
      return EncodeInteger<std::int8_t>(shape, is_result, exact);
    case DType::kU8:
      return EncodeInteger<std::uint8_t>(shape, is_result, exact);
    case DType::kI32:
      return EncodeInteger<std::int32_t>(shape, is_result, exact);
    case DType::kI64:
      return EncodeInteger<std::int64_t>(shape, is_result, exact);
  }
  return {};
}

std::vector<std::byte> InputPeriod(const ValueShape& shape, std::uint32_t rank) {
  return OnePeriod(
      shape, false, [&](std::size_t i) { return static_cast<double>(InputOf(shape, rank, i)); });
}

// Elements of `memory` that differ from the repeated period, from its element `first` on.
std::uint64_t CountDifferent(std::vector<std::byte> period,
                             std::size_t element,
                             std::span<const std::byte> memory,
                             std::size_t first) {
  std::rotate(period.begin(),
              period.begin() + static_cast<std::ptrdiff_t>(first % kPeriod * element),
              period.end());
  std::uint64_t wrong = 0;
  for (std::size_t at = 0; at < memory.size(); at += period.size()) {
    const std::size_t bytes = std::min(period.size(), memory.size() - at);
    if (std::memcmp(memory.data() + at, period.data(), bytes) == 0) {
      continue;
    }
    for (std::size_t i = 0; i < bytes; i += element) {
      wrong += std::memcmp(memory.data() + at + i, period.data() + i, element) != 0 ? 1 : 0;
    }
  }
  return wrong;
}

}  // namespace

void FillInput(const ValueShape& shape, std::uint32_t rank, std::span<std::byte> memory) {
  const std::vector<std::byte> period = InputPeriod(shape, rank);
  for (std::size_t at = 0; at < memory.size(); at += period.size()) {
    std::memcpy(memory.data() + at, period.data(), std::min(period.size(), memory.size() - at));
  }
}

std::uint64_t CountWrong(const ValueShape& shape,
                         std::span<const std::byte> memory,
                         std::size_t first) {
  return CountDifferent(OnePeriod(shape, true, [&](std::size_t i) { return ExactOf(shape, i); }),
                        SizeOf(shape.dtype),
                        memory,
                        first);
}

std::uint64_t CountUnlike(const ValueShape& shape,
                          std::uint32_t rank,
                          std::span<const std::byte> memory,
                          std::size_t first) {
  return CountDifferent(InputPeriod(shape, rank), SizeOf(shape.dtype), memory, first);
}

}  // namespace maypole::cli
