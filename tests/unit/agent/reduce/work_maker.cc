#include "tests/unit/agent/reduce/work_maker.h"

#include <algorithm>
#include <array>
#include <span>

#include "agent/reduce/arithmetic.h"

namespace maypole::agent {
namespace {

// Zeros, subnormals, largest numbers, infinities, quiet and signalling NaN, as patterns.
constexpr std::array<std::uint64_t, 12> kSpecialF64 = {0,
                                                       1ULL << 63,
                                                       1,
                                                       0x800FFFFFFFFFFFFF,
                                                       0x0010000000000000,
                                                       0x7FEFFFFFFFFFFFFF,
                                                       0xFFEFFFFFFFFFFFFF,
                                                       0x7FF0000000000000,
                                                       0xFFF0000000000000,
                                                       0x7FF8000000000001,
                                                       0xFFF8000000000000,
                                                       0x7FF0000000000001};
constexpr std::array<std::uint64_t, 12> kSpecialF32 = {0,
                                                       0x80000000,
                                                       1,
                                                       0x807FFFFF,
                                                       0x00800000,
                                                       0x7F7FFFFF,
                                                       0xFF7FFFFF,
                                                       0x7F800000,
                                                       0xFF800000,
                                                       0x7FC00001,
                                                       0xFFC00000,
                                                       0x7F800001};
constexpr std::array<std::uint64_t, 12> kSpecialF16 = {
    0, 0x8000, 1, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E01, 0xFE00, 0x7C01};
constexpr std::array<std::uint64_t, 12> kSpecialBF16 = {
    0, 0x8000, 1, 0x807F, 0x0080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC1, 0xFFC0, 0x7F81};
constexpr std::array<std::uint64_t, 5> kSpecialInteger = {
    0, ~0ULL, 1ULL << 63 | 1ULL << 31 | 1ULL << 7, ~(1ULL << 63 | 1ULL << 31 | 1ULL << 7), 1};

std::span<const std::uint64_t> SpecialsOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return kSpecialF32;
    case DType::kF64:
      return kSpecialF64;
    case DType::kF16:
      return kSpecialF16;
    case DType::kBF16:
      return kSpecialBF16;
    case DType::kI8:
    case DType::kU8:
    case DType::kI32:
    case DType::kI64:
      return kSpecialInteger;
  }
  return {};
}

// A number such as gradients have; for integers any pattern.
std::uint64_t OrdinaryOf(DType dtype, std::mt19937& random) {
  const float value = std::uniform_real_distribution<float>(-4, 4)(random);
  switch (dtype) {
    case DType::kF32:
      return BitsAs<std::uint32_t>(value);
    case DType::kF64:
      return BitsAs<std::uint64_t>(static_cast<double>(value) / 3);
    case DType::kF16:
      return F16FromF32(value);
    case DType::kBF16:
      return BF16FromF32(value);
    case DType::kI8:
    case DType::kU8:
    case DType::kI32:
    case DType::kI64:
      break;
  }
  return std::uint64_t{random()} << 32 | random();
}

std::uint64_t AnyValueOf(DType dtype, std::mt19937& random) {
  switch (random() % 4) {
    case 0: {
      const auto specials = SpecialsOf(dtype);
      return specials[random() % specials.size()];
    }
    case 1:
      return std::uint64_t{random()} << 32 | random();
    default:
      return OrdinaryOf(dtype, random);
  }
}

}  // namespace

WorkMaker::WorkMaker(const WorkShape& shape, std::uint32_t seed) : shape_(shape), random_(seed) {
  for (std::size_t i = 0; i < shape.inputs; ++i) {
    inputs_.push_back(NewPlace(AnyDType()));
  }
  if (shape.has_received) {
    received_ = NewPlace(shape.received_dtype);
  }
  for (std::size_t m = 0; m < shape.outputs; ++m) {
    const bool in_place = m < std::min(shape.in_place, shape.inputs);
    outputs_.push_back(in_place ? inputs_[m] : NewPlace(AnyDType()));
    if (shape.saved) {
      saves_.push_back(NewPlace(outputs_.back().dtype));
    }
  }
  memory_.resize(memory_.size() + 64);
}

DType WorkMaker::AnyDType() {
  const bool partial = random_() % 2 == 0;
  return partial ? AccumulatorOf(shape_.dtype) : shape_.dtype;
}

WorkMaker::Place WorkMaker::NewPlace(DType dtype) {
  const std::size_t size = SizeOf(dtype);
  const std::size_t line = (memory_.size() + 63) / 64 * 64;
  const Place place{line + (shape_.misaligned ? random_() % 16 * size : 0), dtype};
  memory_.resize(place.offset + shape_.elements * size);
  Fill(place);
  return place;
}

void WorkMaker::Fill(Place place) {
  const std::size_t size = SizeOf(place.dtype);
  constexpr ElementCount kPeriod = 1021;  // random numbers are slow, and a prime is as good
  for (ElementCount i = 0; i < std::min(kPeriod, shape_.elements); ++i) {
    const std::uint64_t value = AnyValueOf(place.dtype, random_);
    std::memcpy(memory_.data() + place.offset + i * size, &value, size);  // little endian
  }
  for (ElementCount i = kPeriod; i < shape_.elements; ++i) {
    std::byte* to = memory_.data() + place.offset + i * size;
    std::memcpy(to, to - kPeriod * size, size);
  }
}

ReduceWork WorkMaker::At(std::byte* base) const {
  const auto operand = [&](Place place) {
    return Operand{{MemoryKind::kHost, base + place.offset, shape_.elements * SizeOf(place.dtype)},
                   place.dtype};
  };
  ReduceWork work;
  work.accumulator = AccumulatorOf(shape_.dtype);
  work.reduction = shape_.reduction;
  work.elements = shape_.elements;
  work.divisor = shape_.divisor;
  for (const Place place : inputs_) {
    work.inputs.push_back(operand(place));
  }
  if (shape_.has_received) {
    work.received = operand(received_);
  }
  for (const Place place : outputs_) {
    work.outputs.push_back(operand(place));
  }
  for (std::size_t k = 0; k < saves_.size(); ++k) {
    work.saves.push_back({work.outputs[k].buffer, operand(saves_[k]).buffer});
  }
  return work;
}

AlignedCopy CopyOf(const std::vector<std::byte>& memory) {
  const std::size_t bytes = (memory.size() + 63) / 64 * 64;
  AlignedCopy copy(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
  std::memcpy(copy.get(), memory.data(), memory.size());
  return copy;
}

bool ReduceAgreesWithReference(const WorkShape& shape, std::uint32_t seed) {
  const WorkMaker maker(shape, seed);
  const AlignedCopy actual = CopyOf(maker.memory());
  const AlignedCopy expected = CopyOf(maker.memory());
  Reduce(maker.At(actual.get()));
  ReduceReference(maker.At(expected.get()));
  return std::memcmp(actual.get(), expected.get(), maker.memory().size()) == 0;
}

}  // namespace maypole::agent
