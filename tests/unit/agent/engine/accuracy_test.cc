// How far the sums of real schedules are from the exact ones, for 2 to 64 ranks.
//
// The bound, for floating point: n - 1 additions in any order are off by at most gamma(n - 1) times
// the sum of magnitudes, gamma(k) = k u / (1 - k u), u = 2^-24 for f32 (N. J. Higham, Accuracy and
// Stability of Numerical Algorithms, 2nd edition, SIAM 2002, section 4.2). The division of a mean
// is one rounding more. Half types are summed in f32 and rounded once at the end, and rounding is
// monotone: so the result lies between the bounds of f32, each rounded once.
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>

#include "agent/reduce/arithmetic.h"
#include "tests/unit/agent/engine/execution_group.h"

namespace maypole::agent {
namespace {

using collective::Algorithm;

constexpr std::uint32_t kRanksMax = 64;

double ValueOf(DType dtype, const std::byte* elements, ElementCount i) {
  if (dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, elements + i * sizeof(value), sizeof(value));
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, elements + i * sizeof(half), sizeof(half));
  return dtype == DType::kF16 ? F32FromF16(half) : F32FromBF16(half);
}

// To the nearest of `dtype`, by way of f32, as a sum goes.
double Rounded(DType dtype, double value) {
  const auto single = static_cast<float>(value);
  switch (dtype) {
    case DType::kF16:
      return F32FromF16(F16FromF32(single));
    case DType::kBF16:
      return F32FromBF16(BF16FromF32(single));
    default:
      return single;
  }
}

class AccuracyTest : public testing::TestWithParam<std::tuple<Algorithm, DType>> {};

TEST_P(AccuracyTest, IsThatOfAnF32SumRoundedOnce) {
  const auto [algorithm, dtype] = GetParam();
  for (std::uint32_t ranks = 2; ranks <= kRanksMax; ++ranks) {
    // An element a chunk at least, where members own chunks; naive sends all to all.
    const sim::OpSpec op{.dtype = dtype,
                         .reduction = ranks % 2 == 0 ? Reduction::kSum : Reduction::kMean,
                         .elements = algorithm == Algorithm::kNaive ? 5U : ranks + 1};
    ExecutionGroup group(algorithm, op, ranks, 1, ExecutionGroup::Place::kInPlace, ranks);
    while (group.StepOnce()) {
    }
    ASSERT_TRUE(group.execution(0).Succeeded());
    const bool is_mean = op.reduction == Reduction::kMean;
    const double unit = std::ldexp((is_mean ? ranks : ranks - 1), -24);
    const sim::Inputs inputs = group.inputs();
    for (ElementCount i = 0; i < op.elements; ++i) {
      double exact = 0;
      double magnitude = 0;
      for (const auto& of_member : inputs) {
        const double value = ValueOf(dtype, of_member[0]->data(), i);
        exact += value;
        magnitude += std::fabs(value);
      }
      const double divisor = is_mean ? ranks : 1;
      const double error = unit / (1 - unit) * magnitude;
      const double got = ValueOf(dtype, group.result(), i);
      EXPECT_GE(got, Rounded(dtype, (exact - error) / divisor)) << ranks << " ranks";
      EXPECT_LE(got, Rounded(dtype, (exact + error) / divisor)) << ranks << " ranks";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms,
                         AccuracyTest,
                         testing::Combine(testing::Values(Algorithm::kRing,
                                                          Algorithm::kDirect,
                                                          Algorithm::kNaive,
                                                          Algorithm::kTree,
                                                          Algorithm::kDoubleTree,
                                                          Algorithm::kHalvingDoubling,
                                                          Algorithm::kHierarchical),
                                          testing::Values(DType::kF32, DType::kF16, DType::kBF16)),
                         [](const auto& of) {
                           return std::string(Name(std::get<0>(of.param))) + '_' +
                                  std::string(Name(std::get<1>(of.param)));
                         });

}  // namespace
}  // namespace maypole::agent
