#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "cli/bench/values.h"

namespace maypole::cli {
namespace {

constexpr std::size_t kElements = 1000;

// Sums the inputs of all ranks the plain way, for types whose arithmetic C++ has.
template <typename T>
std::vector<std::byte> PlainReduction(const ValueShape& shape) {
  std::vector<T> total(kElements);
  std::vector<T> input(kElements);
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    FillInput(shape, rank, std::as_writable_bytes(std::span(input)));
    for (std::size_t i = 0; i < kElements; ++i) {
      const T a = total[i];
      const T b = input[i];
      if (rank == 0) {
        total[i] = b;
      } else if (shape.reduction == Reduction::kMin) {
        total[i] = std::min(a, b);
      } else if (shape.reduction == Reduction::kMax) {
        total[i] = std::max(a, b);
      } else if (shape.reduction == Reduction::kProduct) {
        total[i] = static_cast<T>(a * b);
      } else {
        total[i] = static_cast<T>(a + b);
      }
    }
  }
  if (shape.reduction == Reduction::kMean) {
    for (T& value : total) {
      value = static_cast<T>(value / static_cast<T>(shape.ranks));
    }
  }
  const auto bytes = std::as_bytes(std::span(total));
  return {bytes.begin(), bytes.end()};
}

template <typename T>
class BenchValues : public ::testing::Test {};

struct F32 {
  using Type = float;
  static constexpr DType kDType = DType::kF32;
};

struct F64 {
  using Type = double;
  static constexpr DType kDType = DType::kF64;
};

struct I8 {
  using Type = std::int8_t;
  static constexpr DType kDType = DType::kI8;
};

struct U8 {
  using Type = std::uint8_t;
  static constexpr DType kDType = DType::kU8;
};

struct I32 {
  using Type = std::int32_t;
  static constexpr DType kDType = DType::kI32;
};

struct I64 {
  using Type = std::int64_t;
  static constexpr DType kDType = DType::kI64;
};

using Types = ::testing::Types<F32, F64, I8, U8, I32, I64>;
TYPED_TEST_SUITE(BenchValues, Types);

TYPED_TEST(BenchValues, TheExpectedResultIsTheReductionOfTheInputs) {
  using T = typename TypeParam::Type;
  for (int reduction = 0; reduction < kReductionCount; ++reduction) {
    for (const std::uint32_t ranks : {1U, 2U, 3U, 8U, 16U}) {
      const ValueShape shape = {TypeParam::kDType, static_cast<Reduction>(reduction), ranks};
      EXPECT_EQ(CountWrong(shape, PlainReduction<T>(shape)), 0U)
          << Name(shape.reduction) << ' ' << ranks;
    }
  }
}

TEST(BenchValueEncoding, HalfTypesHoldTheWholeNumbersThatTheyCanAndRoundTheRestToEven) {
  std::vector<std::uint16_t> result(kElements);
  // Product of 16 ranks: 2^4 everywhere.
  for (const auto& [dtype, sixteen] :
       {std::pair(DType::kF16, 0x4c00), std::pair(DType::kBF16, 0x4180)}) {
    std::fill(result.begin(), result.end(), static_cast<std::uint16_t>(sixteen));
    EXPECT_EQ(CountWrong({dtype, Reduction::kProduct, 16}, std::as_bytes(std::span(result))), 0U);
  }
  // Maximum of 8 ranks: 7 everywhere.
  std::fill(result.begin(), result.end(), std::uint16_t{0x4700});
  EXPECT_EQ(CountWrong({DType::kF16, Reduction::kMax, 8}, std::as_bytes(std::span(result))), 0U);
  // Product of 128 ranks: 2^32, beyond f16.
  std::fill(result.begin(), result.end(), std::uint16_t{0x7c00});
  EXPECT_EQ(CountWrong({DType::kF16, Reduction::kProduct, 128}, std::as_bytes(std::span(result))),
            0U);
}

TEST(BenchValueCheck, EveryWrongElementIsCounted) {
  const ValueShape shape = {DType::kF32, Reduction::kSum, 3};
  std::vector<std::byte> result = PlainReduction<float>(shape);
  for (const std::size_t element : {std::size_t{0}, std::size_t{251}, kElements - 1}) {
    result[element * sizeof(float) + 2] ^= std::byte{1};
  }
  EXPECT_EQ(CountWrong(shape, result), 3U);
  EXPECT_EQ(CountWrong(shape, {}), 0U);
}

TEST(BenchValueCheck, ALostRankIsNoticed) {
  EXPECT_GT(CountWrong({DType::kF32, Reduction::kSum, 4},
                       PlainReduction<float>({DType::kF32, Reduction::kSum, 3})),
            0U);
}

TEST(BenchValuesOfABlock, AreComparedFromTheirPlaceInTheTensor) {
  const ValueShape shape = {.dtype = DType::kI32, .ranks = 3};
  std::vector<std::int32_t> input(kElements);
  const auto bytes = std::as_writable_bytes(std::span(input));
  FillInput(shape, 1, bytes);
  EXPECT_EQ(CountUnlike(shape, 1, bytes.subspan(4 * 300, 4 * 400), 300), 0U);
  EXPECT_GT(CountUnlike(shape, 1, bytes.subspan(4 * 300, 4 * 400), 301), 0U);
  EXPECT_GT(CountUnlike(shape, 2, bytes.subspan(4 * 300, 4 * 400), 300), 0U);
  const auto sum = PlainReduction<std::int32_t>(shape);
  EXPECT_EQ(CountWrong(shape, std::span(sum).subspan(4 * 500), 500), 0U);
}

}  // namespace
}  // namespace maypole::cli
