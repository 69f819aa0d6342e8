// The arithmetic of one element: conversions of the half types, and the five reductions. Everything
// that sums, on whatever processor, means exactly this; the bits agree.
//
// Threads: pure functions.
// Numerics: IEEE 754, round to nearest even, subnormals kept, no contraction into FMA (compile with
// -ffp-contract=off).
//   NaN: whatever is computed from a NaN, or converts one, is the positive quiet NaN of the type
//   with an empty payload. Processors choose the payload by operand order, which compilers swap at
//   will; so the payload is dropped. min and max: NaN wins; -0 is less than +0 (`minimum` and
//   `maximum` of IEEE 754-2019), so the order does not matter. Integers wrap; they are computed
//   unsigned, where wrapping is defined.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/dtype.h"

// Functions here also compile for a GPU.
#ifdef __CUDACC__
#define MAYPOLE_HOST_DEVICE __host__ __device__
#else
#define MAYPOLE_HOST_DEVICE
#endif

namespace maypole::agent {

template <typename To, typename From>
MAYPOLE_HOST_DEVICE inline To BitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// ---- conversions

MAYPOLE_HOST_DEVICE inline float F32FromBF16(std::uint16_t half) {
  return BitsAs<float>(static_cast<std::uint32_t>(half) << 16);
}

MAYPOLE_HOST_DEVICE inline std::uint16_t BF16FromF32(float value) {
  if (value != value) {
    return 0x7FC0;
  }
  const auto bits = BitsAs<std::uint32_t>(value);
  const std::uint32_t round =
      0x7FFF + ((bits >> 16) & 1);  // overflows into the exponent, and so to infinity
  return static_cast<std::uint16_t>((bits + round) >> 16);
}

MAYPOLE_HOST_DEVICE inline float F32FromF16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t magnitude = half & 0x7FFF;
  if (magnitude < 0x0400) {  // zero or subnormal: a multiple of 2^-24, exact in f32
    const float value = static_cast<float>(magnitude) * 0x1p-24F;
    return BitsAs<float>(sign | BitsAs<std::uint32_t>(value));
  }
  const std::uint32_t rebias = magnitude < 0x7C00 ? (127 - 15) << 23 : (255 - 31) << 23;
  return BitsAs<float>(sign | ((magnitude << 13) + rebias));
}

MAYPOLE_HOST_DEVICE inline std::uint16_t F16FromF32(float value) {
  const auto bits = BitsAs<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) {
    return 0x7E00;
  }
  if (magnitude >= 0x47800000) {  // 2^16 and above
    return static_cast<std::uint16_t>(sign | 0x7C00);
  }
  if (magnitude >= 0x38800000) {  // 2^-14 and above: a normal number, or rounded up to infinity
    const std::uint32_t round = 0x0FFF + ((magnitude >> 13) & 1);
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000 + round) >> 13));
  }
  if (magnitude <= 0x33000000) {  // 2^-25 ties to zero
    return static_cast<std::uint16_t>(sign);
  }
  const std::uint32_t shift =
      126 - (magnitude >> 23);  // 14 .. 24: the unit of a subnormal is 2^-24
  const std::uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
  const std::uint32_t kept = mantissa >> shift;
  const std::uint32_t lost = mantissa & ((1U << shift) - 1);
  const std::uint32_t tie = 1U << (shift - 1);
  const bool up = lost > tie || (lost == tie && (kept & 1) != 0);
  return static_cast<std::uint16_t>(sign | (kept + (up ? 1 : 0)));
}

// ---- reductions

// The NaN of every computed result.
template <typename T>
MAYPOLE_HOST_DEVICE inline T Canonical(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value != value ? std::numeric_limits<T>::quiet_NaN() : value;
  }
  return value;
}

template <typename T>
MAYPOLE_HOST_DEVICE inline bool IsNegative(T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  return BitsAs<Bits>(value) < 0;
}

template <typename T>
MAYPOLE_HOST_DEVICE inline T Minimum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) {
      return std::numeric_limits<T>::quiet_NaN();
    }
    if (a == b) {
      return IsNegative(a) ? a : b;
    }
  }
  return b < a ? b : a;
}

template <typename T>
MAYPOLE_HOST_DEVICE inline T Maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) {
      return std::numeric_limits<T>::quiet_NaN();
    }
    if (a == b) {
      return IsNegative(a) ? b : a;
    }
  }
  return a < b ? b : a;
}

template <typename T>
MAYPOLE_HOST_DEVICE inline T Add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  }
}

template <typename T>
MAYPOLE_HOST_DEVICE inline T Multiply(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a * b;
  } else {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
  }
}

template <Reduction kReduction, typename T>
MAYPOLE_HOST_DEVICE inline T CombineElements(T a, T b) {
  switch (kReduction) {
    case Reduction::kSum:
    case Reduction::kMean:
      return Add(a, b);
    case Reduction::kMin:
      return Minimum(a, b);
    case Reduction::kMax:
      return Maximum(a, b);
    case Reduction::kProduct:
      return Multiply(a, b);
  }
  return a;
}

// divisor != 0. Integers are divided by magnitude, since the divisor may exceed what T can hold.
template <typename T>
MAYPOLE_HOST_DEVICE inline T DivideBy(T value, std::uint64_t divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    return value / static_cast<T>(divisor);
  } else {
    const auto wide = static_cast<std::uint64_t>(value);  // sign-extended
    if (value < 0) {
      return static_cast<T>(0 - (0 - wide) / divisor);
    }
    return static_cast<T>(wide / divisor);
  }
}

}  // namespace maypole::agent
