#include "common/dtype.h"

#include <array>
#include <utility>

namespace maypole {
namespace {

constexpr std::array<std::string_view, kDTypeCount> kDTypeNames = {
    "f32", "f64", "f16", "bf16", "i8", "u8", "i32", "i64"};
constexpr std::pair<std::string_view, DType> kDTypeAliases[] = {{"float32", DType::kF32},
                                                                {"fp32", DType::kF32},
                                                                {"float64", DType::kF64},
                                                                {"fp64", DType::kF64},
                                                                {"float16", DType::kF16},
                                                                {"fp16", DType::kF16},
                                                                {"bfloat16", DType::kBF16},
                                                                {"int8", DType::kI8},
                                                                {"uint8", DType::kU8},
                                                                {"int32", DType::kI32},
                                                                {"int64", DType::kI64}};
constexpr std::array<std::size_t, kDTypeCount> kDTypeSizes = {4, 8, 2, 2, 1, 1, 4, 8};
constexpr std::array<std::string_view, kReductionCount> kReductionNames = {
    "sum", "mean", "min", "max", "product"};

template <typename Names>
std::optional<std::size_t> IndexOf(const Names& names, std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::size_t SizeOf(DType dtype) {
  return kDTypeSizes.at(static_cast<std::size_t>(dtype));
}

DType AccumulatorOf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ? DType::kF32 : dtype;
}

std::string_view Name(DType dtype) {
  return kDTypeNames.at(static_cast<std::size_t>(dtype));
}

std::string_view Name(Reduction reduction) {
  return kReductionNames.at(static_cast<std::size_t>(reduction));
}

std::optional<DType> DTypeFromNumber(std::uint32_t number) {
  if (number >= kDTypeNames.size()) {
    return std::nullopt;
  }
  return static_cast<DType>(number);
}

std::optional<Reduction> ReductionFromNumber(std::uint32_t number) {
  if (number >= kReductionNames.size()) {
    return std::nullopt;
  }
  return static_cast<Reduction>(number);
}

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const auto& [alias, dtype] : kDTypeAliases) {
    if (alias == name) {
      return dtype;
    }
  }
  const auto index = IndexOf(kDTypeNames, name);
  return index ? DTypeFromNumber(static_cast<std::uint32_t>(*index)) : std::nullopt;
}

std::optional<Reduction> ReductionFromName(std::string_view name) {
  const auto index = IndexOf(kReductionNames, name);
  return index ? ReductionFromNumber(static_cast<std::uint32_t>(*index)) : std::nullopt;
}

}  // namespace maypole
