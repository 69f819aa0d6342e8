#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "agent/reduce/arithmetic.h"
#include "agent/reduce/work.h"
#include "tests/unit/agent/reduce/work_maker.h"

namespace maypole::agent {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

template <typename T>
Operand OperandOf(std::vector<T>& values, DType dtype) {
  return {
      {MemoryKind::kHost, reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)},
      dtype};
}

template <typename T>
ReduceWork WorkOf(DType dtype,
                  Reduction reduction,
                  std::vector<std::vector<T>>& inputs,
                  std::vector<T>& output) {
  ReduceWork work;
  work.accumulator = AccumulatorOf(dtype);
  work.reduction = reduction;
  work.elements = output.size();
  for (std::vector<T>& input : inputs) {
    work.inputs.push_back(OperandOf(input, dtype));
  }
  work.outputs.push_back(OperandOf(output, dtype));
  return work;
}

// Every case runs with every instruction set that this processor has.
class ReduceTargets : public ::testing::TestWithParam<std::tuple<std::int64_t, DType>> {
 protected:
  ReduceTargets() { Choose(std::get<0>(GetParam())); }

  ~ReduceTargets() override { Choose(0); }

  DType dtype() const { return std::get<1>(GetParam()); }

 private:
  static void Choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

std::string NameOf(const WorkShape& s) {
  return std::string(Name(s.dtype)) + " " + std::string(Name(s.reduction)) +
         " inputs=" + std::to_string(s.inputs) + " outputs=" + std::to_string(s.outputs) +
         " received=" + (s.has_received ? std::string(Name(s.received_dtype)) : "no") +
         " elements=" + std::to_string(s.elements) + " divisor=" + std::to_string(s.divisor) +
         " in_place=" + std::to_string(s.in_place) + " saved=" + std::to_string(s.saved);
}

TEST_P(ReduceTargets, UsesTheTargetThatWasChosen) {
  EXPECT_STREQ(ReduceTarget(), hwy::TargetName(std::get<0>(GetParam())));
}

TEST_P(ReduceTargets, LeavesTheSameBytesAsTheReference) {
  std::uint32_t seed = 1;
  WorkShape shape;
  shape.dtype = dtype();
  for (int reduction = 0; reduction < kReductionCount; ++reduction) {
    shape.reduction = static_cast<Reduction>(reduction);
    for (shape.inputs = 1; shape.inputs <= 5; ++shape.inputs) {
      for (shape.outputs = 1; shape.outputs <= 4; ++shape.outputs) {
        for (int received = 0; received < 3; ++received) {
          shape.has_received = received != 0;
          shape.received_dtype = received == 1 ? shape.dtype : AccumulatorOf(shape.dtype);
          for (const ElementCount elements : {0, 1, 3, 63, 64, 65, 1000, 4097}) {
            ++seed;
            shape.elements = elements;
            shape.divisor = shape.reduction == Reduction::kMean ? 1 + seed % 7 : 0;
            shape.in_place = seed % 5;
            shape.saved = seed % 3 == 0;
            ASSERT_TRUE(ReduceAgreesWithReference(shape, seed)) << NameOf(shape);
          }
        }
      }
    }
  }
}

TEST_P(ReduceTargets, LeavesTheSameBytesAsTheReferenceWhenOutputsBypassTheCaches) {
  std::uint32_t seed = 1;
  for (const bool misaligned : {false, true}) {
    for (const std::size_t in_place : {0, 1, 2}) {
      for (const std::size_t inputs : {1, 2}) {
        WorkShape shape;
        shape.dtype = dtype();
        shape.inputs = inputs;
        shape.outputs = 3;
        shape.elements = (std::uint64_t{256} << 10) / SizeOf(dtype()) + 37;
        shape.in_place = in_place;
        shape.misaligned = misaligned;
        shape.saved = seed % 2 == 0;
        ASSERT_TRUE(ReduceAgreesWithReference(shape, ++seed)) << NameOf(shape);
      }
    }
  }
}

std::vector<std::int64_t> Targets() {
  // SSSE3 is not built, and SCALAR is the fallback that every build has.
  std::vector<std::int64_t> targets;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (target != HWY_SSSE3) {
      targets.push_back(target);
    }
  }
  return targets;
}

INSTANTIATE_TEST_SUITE_P(All,
                         ReduceTargets,
                         ::testing::Combine(::testing::ValuesIn(Targets()),
                                            ::testing::Values(DType::kF32,
                                                              DType::kF64,
                                                              DType::kF16,
                                                              DType::kBF16,
                                                              DType::kI8,
                                                              DType::kU8,
                                                              DType::kI32,
                                                              DType::kI64)),
                         [](const auto& param) {
                           return std::string(hwy::TargetName(std::get<0>(param.param))) + "_" +
                                  std::string(Name(std::get<1>(param.param)));
                         });

TEST(Reduce, FoldsInputsFromTheLeftAndThenTheReceived) {
  // In f32, 1 is lost beside 2^25: only ((a + b) + c) and then received + that gives this.
  std::vector<std::vector<float>> inputs = {{1}, {0x1p25F}, {-0x1p25F}};
  std::vector<float> received = {5};
  std::vector<float> output = {0};
  ReduceWork work = WorkOf(DType::kF32, Reduction::kSum, inputs, output);
  work.received = OperandOf(received, DType::kF32);
  Reduce(work);
  EXPECT_EQ(output[0], 5);
  std::swap(work.inputs[0], work.inputs[2]);
  Reduce(work);
  EXPECT_EQ(output[0], 6);
}

TEST(Reduce, HalfTypesAreSummedInF32AndRoundedOnce) {
  // 2048 + 1 + 1 in f16 steps would stay 2048.
  std::vector<std::vector<std::uint16_t>> inputs = {
      {F16FromF32(2048)}, {F16FromF32(1)}, {F16FromF32(1)}};
  std::vector<std::uint16_t> output = {0};
  Reduce(WorkOf(DType::kF16, Reduction::kSum, inputs, output));
  EXPECT_EQ(F32FromF16(output[0]), 2050);
}

TEST(Reduce, MeanOfF32IsWithinOneRoundingOfTheDoubleMean) {
  constexpr std::size_t kElements = 1001;
  std::vector<std::vector<float>> inputs(2, std::vector<float>(kElements));
  for (std::size_t i = 0; i < kElements; ++i) {
    inputs[0][i] = static_cast<float>(i) * 0.37F;
    inputs[1][i] = 3.0F - static_cast<float>(i) * 0.011F;
  }
  std::vector<float> output(kElements);
  ReduceWork work = WorkOf(DType::kF32, Reduction::kMean, inputs, output);
  work.divisor = 3;
  Reduce(work);
  for (std::size_t i = 0; i < kElements; ++i) {
    const double sum = static_cast<double>(inputs[0][i]) + inputs[1][i];
    EXPECT_NEAR(output[i], sum / 3, std::abs(sum / 3) * 0x1p-23);
  }
}

TEST(Reduce, SumOfF64IsExactForIntegers) {
  std::vector<std::vector<double>> inputs(4, std::vector<double>(77));
  for (std::size_t i = 0; i < 77; ++i) {
    for (std::size_t k = 0; k < 4; ++k) {
      inputs[k][i] = static_cast<double>(i * 1000 + k);
    }
  }
  std::vector<double> output(77);
  Reduce(WorkOf(DType::kF64, Reduction::kSum, inputs, output));
  for (std::size_t i = 0; i < 77; ++i) {
    EXPECT_EQ(output[i], static_cast<double>(4000 * i + 6));
  }
}

TEST(Reduce, NaNAndInfinityPropagateWhereverTheyStand) {
  constexpr std::size_t kElements = 200;  // through vectors and the rest
  const float nan = BitsAs<float>(0xFFC0BEEFU);
  for (const Reduction reduction :
       {Reduction::kSum, Reduction::kMean, Reduction::kMin, Reduction::kMax, Reduction::kProduct}) {
    for (std::size_t who = 0; who < 3; ++who) {
      std::vector<std::vector<float>> inputs(3, std::vector<float>(kElements, 2.0F));
      inputs[who].assign(kElements, nan);
      std::vector<float> output(kElements);
      Reduce(WorkOf(DType::kF32, reduction, inputs, output));
      for (const float value : output) {
        ASSERT_EQ(BitsAs<std::uint32_t>(value), 0x7FC00000U) << Name(reduction) << who;
      }
    }
  }
  std::vector<std::vector<float>> inputs = {{kInf, kInf, -kInf}, {1, -kInf, 1}};
  std::vector<float> output(3);
  Reduce(WorkOf(DType::kF32, Reduction::kSum, inputs, output));
  EXPECT_EQ(output[0], kInf);
  EXPECT_TRUE(std::isnan(output[1]));
  EXPECT_EQ(output[2], -kInf);
}

TEST(Reduce, SubnormalsAreKept) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  std::vector<std::vector<float>> inputs(2, std::vector<float>(64, tiny));
  std::vector<float> output(64);
  Reduce(WorkOf(DType::kF32, Reduction::kSum, inputs, output));
  EXPECT_EQ(output, std::vector<float>(64, 2 * tiny));
}

TEST(Reduce, IntegersWrapInVectorsAndInTheRest) {
  std::vector<std::vector<std::int8_t>> inputs(2, std::vector<std::int8_t>(1001, 100));
  std::vector<std::int8_t> output(1001);
  Reduce(WorkOf(DType::kI8, Reduction::kSum, inputs, output));
  EXPECT_EQ(output, std::vector<std::int8_t>(1001, -56));
}

TEST(Reduce, MeanOfIntegersTruncatesTowardZero) {
  std::vector<std::vector<std::int32_t>> inputs = {{-3, 3, INT32_MAX}, {-4, 4, 1}};
  std::vector<std::int32_t> output(3);
  ReduceWork work = WorkOf(DType::kI32, Reduction::kMean, inputs, output);
  work.divisor = 2;
  Reduce(work);
  EXPECT_EQ(output, (std::vector<std::int32_t>{-3, 3, INT32_MIN / 2}));
}

TEST(Reduce, SavesWhatItThenOverwrites) {
  constexpr std::size_t kElements = 10000;  // several blocks
  std::vector<std::vector<float>> inputs(2, std::vector<float>(kElements, 1.0F));
  std::vector<float> kept(kElements);
  std::vector<float> elsewhere(kElements);
  ReduceWork work = WorkOf(DType::kF32, Reduction::kSum, inputs, inputs[0]);
  work.saves = {
      {work.outputs[0].buffer, OperandOf(kept, DType::kF32).buffer},
      // Not exactly an output: a part of one.
      {work.outputs[0].buffer.Sub(4, 4000), OperandOf(elsewhere, DType::kF32).buffer.Sub(0, 4000)}};
  Reduce(work);
  EXPECT_EQ(inputs[0], std::vector<float>(kElements, 2.0F));
  EXPECT_EQ(kept, std::vector<float>(kElements, 1.0F));
  EXPECT_EQ(std::vector<float>(elsewhere.begin(), elsewhere.begin() + 1000),
            std::vector<float>(1000, 1.0F));
  EXPECT_EQ(elsewhere[1000], 0.0F);
}

TEST(Reduce, ACopyKeepsThePayloadOfNaN) {
  std::vector<std::vector<float>> inputs = {{BitsAs<float>(0x7F801234U), -0.0F}};
  std::vector<float> output(2);
  Reduce(WorkOf(DType::kF32, Reduction::kMax, inputs, output));
  EXPECT_EQ(BitsAs<std::uint32_t>(output[0]), 0x7F801234U);
  EXPECT_TRUE(std::signbit(output[1]));
}

TEST(Reduce, ReducesMoreOutputsThanTheStreamMaskHolds) {
  constexpr std::size_t kElements = 70000;
  std::vector<std::vector<float>> inputs(2, std::vector<float>(kElements, 1.0F));
  std::vector<std::vector<float>> outputs(66, std::vector<float>(kElements));
  ReduceWork work = WorkOf(DType::kF32, Reduction::kSum, inputs, outputs[0]);
  for (std::size_t m = 1; m < outputs.size(); ++m) {
    work.outputs.push_back(OperandOf(outputs[m], DType::kF32));
  }
  Reduce(work);
  for (const auto& output : outputs) {
    ASSERT_EQ(output, std::vector<float>(kElements, 2.0F));
  }
}

TEST(ReduceDeathTest, RefusesOperandsThatDoNotFitTheAccumulator) {
  std::vector<std::vector<float>> inputs = {{1.0F}};
  std::vector<float> output(1);
  ReduceWork work = WorkOf(DType::kF32, Reduction::kSum, inputs, output);
  work.accumulator = DType::kF64;
  EXPECT_DEATH(Reduce(work), "accumulator");
}

}  // namespace
}  // namespace maypole::agent
