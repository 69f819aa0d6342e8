#include "agent/reduce/arithmetic.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace maypole::agent {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The value of an f16 by its definition.
double ValueOfF16(std::uint16_t half) {
  const int exponent = (half >> 10) & 0x1F;
  const int mantissa = half & 0x3FF;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
  }
  if (exponent == 0) {
    return sign * std::ldexp(mantissa, -24);
  }
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(F16, WidensEveryPatternToItsValue) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double expected = ValueOfF16(half);
    const float actual = F32FromF16(half);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual)) << bits;
    } else {
      ASSERT_EQ(actual, expected) << bits;
      ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << bits;
    }
  }
}

TEST(F16, NarrowsWhatItWidenedToTheSamePattern) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool is_nan = (half & 0x7FFF) > 0x7C00;
    ASSERT_EQ(F16FromF32(F32FromF16(half)), is_nan ? 0x7E00 : half);
  }
}

TEST(F16, RoundsToTheNearestAndTiesToEven) {
  // Between each number and the next larger one: just below the middle, the middle, just above it.
  for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const float middle = static_cast<float>((ValueOfF16(low) + ValueOfF16(high)) / 2);
    ASSERT_EQ(F16FromF32(std::nextafter(middle, 0.0F)), low);
    ASSERT_EQ(F16FromF32(middle), (low & 1) == 0 ? low : high);
    ASSERT_EQ(F16FromF32(std::nextafter(middle, kInf)), high);
    ASSERT_EQ(F16FromF32(-middle), 0x8000 | ((low & 1) == 0 ? low : high));
  }
}

TEST(F16, OverflowsToInfinityFromTheMiddleOn) {
  EXPECT_EQ(F16FromF32(65504.0F), 0x7BFF);
  EXPECT_EQ(F16FromF32(std::nextafter(65520.0F, 0.0F)), 0x7BFF);
  EXPECT_EQ(F16FromF32(65520.0F), 0x7C00);
  EXPECT_EQ(F16FromF32(-1e30F), 0xFC00);
  EXPECT_EQ(F16FromF32(-kInf), 0xFC00);
}

TEST(BF16, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7F7F; ++bits) {
    const auto middle = BitsAs<float>((bits << 16) | 0x8000);
    const std::uint32_t even = (bits & 1) == 0 ? bits : bits + 1;
    ASSERT_EQ(BF16FromF32(BitsAs<float>((bits << 16) | 0x7FFF)), bits);
    ASSERT_EQ(BF16FromF32(middle), even);
    ASSERT_EQ(BF16FromF32(-middle), 0x8000 | even);
    ASSERT_EQ(BF16FromF32(BitsAs<float>((bits << 16) | 0x8001)), bits + 1);
  }
  EXPECT_EQ(BF16FromF32(std::numeric_limits<float>::max()), 0x7F80);
}

TEST(BF16, KeepsInfinitiesAndNaN) {
  EXPECT_EQ(BF16FromF32(kInf), 0x7F80);
  EXPECT_EQ(BF16FromF32(-kInf), 0xFF80);
  // A payload in the lost bits only must not become infinity.
  EXPECT_EQ(BF16FromF32(BitsAs<float>(0x7F800001U)), 0x7FC0);
  EXPECT_EQ(BF16FromF32(BitsAs<float>(0xFFFFFFFFU)), 0x7FC0);
  EXPECT_EQ(F32FromBF16(0x8000), 0.0F);
  EXPECT_TRUE(std::signbit(F32FromBF16(0x8000)));
}

TEST(Integers, WrapInsteadOfOverflowing) {
  EXPECT_EQ((Add<std::int8_t>(127, 1)), -128);
  EXPECT_EQ((Add<std::uint8_t>(255, 2)), 1);
  EXPECT_EQ((Add<std::int32_t>(INT32_MIN, -1)), INT32_MAX);
  EXPECT_EQ((Add<std::int64_t>(INT64_MAX, INT64_MAX)), -2);
  EXPECT_EQ((Multiply<std::int8_t>(-128, -1)), -128);
  EXPECT_EQ((Multiply<std::uint8_t>(200, 200)), 64);
  EXPECT_EQ((Multiply<std::int32_t>(INT32_MIN, -1)), INT32_MIN);
  EXPECT_EQ((Multiply<std::int64_t>(INT64_MAX, 2)), -2);
}

TEST(Integers, MeanTruncatesTowardZeroForAnyDivisor) {
  EXPECT_EQ((DivideBy<std::int8_t>(-7, 2)), -3);
  EXPECT_EQ((DivideBy<std::int8_t>(7, 2)), 3);
  EXPECT_EQ((DivideBy<std::int8_t>(-128, 300)), 0);
  EXPECT_EQ((DivideBy<std::int8_t>(-128, 1)), -128);
  EXPECT_EQ((DivideBy<std::uint8_t>(255, 2)), 127);
  EXPECT_EQ((DivideBy<std::int32_t>(INT32_MIN, 3)), -715827882);
  EXPECT_EQ((DivideBy<std::int64_t>(INT64_MIN, 1)), INT64_MIN);
  EXPECT_EQ((DivideBy<std::int64_t>(INT64_MIN, std::uint64_t{1} << 63)), -1);
  EXPECT_EQ((DivideBy<std::int64_t>(INT64_MAX, ~std::uint64_t{0})), 0);
}

TEST(Floats, MinimumAndMaximumPropagateNaNFromEitherSide) {
  EXPECT_TRUE(std::isnan(Minimum(kNaN, 1.0F)));
  EXPECT_TRUE(std::isnan(Minimum(1.0F, kNaN)));
  EXPECT_TRUE(std::isnan(Maximum(kNaN, kInf)));
  EXPECT_TRUE(std::isnan(Maximum(-kInf, kNaN)));
}

TEST(Floats, MinimumAndMaximumOrderTheZeros) {
  EXPECT_TRUE(std::signbit(Minimum(0.0, -0.0)));
  EXPECT_TRUE(std::signbit(Minimum(-0.0, 0.0)));
  EXPECT_FALSE(std::signbit(Maximum(0.0, -0.0)));
  EXPECT_FALSE(std::signbit(Maximum(-0.0, 0.0)));
}

TEST(Floats, CanonicalNaNHasNoPayload) {
  EXPECT_EQ(BitsAs<std::uint32_t>(Canonical(BitsAs<float>(0xFFC12345U))), 0x7FC00000U);
  EXPECT_EQ(BitsAs<std::uint32_t>(Canonical(-0.0F)), 0x80000000U);
}

}  // namespace
}  // namespace maypole::agent
