// The loops: for four vectors at a time, all inputs are loaded and folded before any output is
// stored, so an output may be an input. One pass over memory however many inputs and outputs there
// are.
#if defined(MAYPOLE_AGENT_REDUCE_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAYPOLE_AGENT_REDUCE_KERNELS_INL_H_
#undef MAYPOLE_AGENT_REDUCE_KERNELS_INL_H_
#else
#define MAYPOLE_AGENT_REDUCE_KERNELS_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <hwy/highway.h>

#include "agent/reduce/lanes-inl.h"
#include "agent/reduce/operands.h"
#include "agent/reduce/reduce_kernels.h"

HWY_BEFORE_NAMESPACE();

namespace maypole::agent {
namespace HWY_NAMESPACE {

constexpr std::size_t kUnroll = 4;

// kUnroll neighbouring vectors. Named members keep them in registers at any optimisation level.
template <class D>
struct Lanes4 {
  hn::Vec<D> a, b, c, d;
};

template <class D, class Load>
HWY_INLINE Lanes4<D> LoadEach(D d, Load load) {
  const std::size_t n = hn::Lanes(d);
  return {load(0), load(n), load(2 * n), load(3 * n)};
}

template <class D>
HWY_INLINE Lanes4<D> LoadLanes(D d, const Operand& operand, ElementCount i) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_same_v<T, float>) {
    if (operand.dtype != DType::kF32) {
      const std::uint16_t* from = ElementsOf<std::uint16_t>(operand) + i;
      if (operand.dtype == DType::kF16) {
        return LoadEach(d, [&](std::size_t at) HWY_ATTR { return LoadF16(d, from + at); });
      }
      return LoadEach(d, [&](std::size_t at) HWY_ATTR { return LoadBF16(d, from + at); });
    }
  }
  const T* from = ElementsOf<T>(operand) + i;
  return LoadEach(d, [&](std::size_t at) HWY_ATTR { return hn::LoadU(d, from + at); });
}

template <class D, class Store>
HWY_INLINE void StoreEach(D d, const Lanes4<D>& v, Store store) {
  const std::size_t n = hn::Lanes(d);
  store(v.a, 0);
  store(v.b, n);
  store(v.c, 2 * n);
  store(v.d, 3 * n);
}

template <class D>
HWY_INLINE void StoreLanes(
    D d, const Operand& operand, ElementCount i, bool streamed, const Lanes4<D>& v) {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  if constexpr (std::is_same_v<T, float>) {
    if (operand.dtype != DType::kF32) {
      std::uint16_t* to = ElementsOf<std::uint16_t>(operand) + i;
      if (operand.dtype == DType::kF16) {
        return StoreEach(
            d, v, [&](V lanes, std::size_t at) HWY_ATTR { StoreF16(d, lanes, to + at); });
      }
      return StoreEach(
          d, v, [&](V lanes, std::size_t at) HWY_ATTR { StoreBF16(d, lanes, to + at); });
    }
  }
  T* to = ElementsOf<T>(operand) + i;
  if (streamed) {
    return StoreEach(
        d, v, [&](V lanes, std::size_t at) HWY_ATTR { hn::Stream(lanes, d, to + at); });
  }
  StoreEach(d, v, [&](V lanes, std::size_t at) HWY_ATTR { hn::StoreU(lanes, d, to + at); });
}

template <class D, class Function>
HWY_INLINE Lanes4<D> Map(D, const Lanes4<D>& v, Function f) {
  return {f(v.a), f(v.b), f(v.c), f(v.d)};
}

template <Reduction kReduction, class D>
HWY_INLINE Lanes4<D> Combine4(D d, const Lanes4<D>& x, const Lanes4<D>& y) {
  return {CombineLanes<kReduction>(d, x.a, y.a),
          CombineLanes<kReduction>(d, x.b, y.b),
          CombineLanes<kReduction>(d, x.c, y.c),
          CombineLanes<kReduction>(d, x.d, y.d)};
}

template <typename A, Reduction kReduction>
void ReduceScalars(const ReduceWork& work, ElementRange range) {
  for (ElementCount i = range.begin; i < range.end; ++i) {
    ReduceElement<A, kReduction>(work, i);
  }
}

template <Reduction kReduction, class D>
HWY_INLINE void ReduceFour(D d, const ReduceWork& work, ElementCount i, StreamMask streamed) {
  using V = hn::Vec<D>;
  using T = hn::TFromD<D>;
  Lanes4<D> v = LoadLanes(d, work.inputs[0], i);
  for (std::size_t j = 1; j < work.inputs.size(); ++j) {
    v = Combine4<kReduction>(d, v, LoadLanes(d, work.inputs[j], i));
  }
  if (work.received.buffer.address != nullptr) {
    v = Combine4<kReduction>(d, LoadLanes(d, work.received, i), v);
  }
  if constexpr (hwy::IsFloat<T>()) {
    if (work.divisor != 0) {
      const V divisor = hn::Set(d, static_cast<T>(work.divisor));
      v = Map(d, v, [&](V lanes) HWY_ATTR { return hn::Div(lanes, divisor); });
    }
    v = Map(d, v, [&](V lanes) HWY_ATTR { return CanonicalLanes(d, lanes); });
  }
  for (std::size_t m = 0; m < work.outputs.size(); ++m) {
    StoreLanes(d, work.outputs[m], i, m < 64 && ((streamed >> m) & 1) != 0, v);
  }
}

// Elements from `begin` on until every output that can be streamed is aligned to a vector; clears
// the others from `streamed`.
template <class D>
ElementCount AlignStreams(D d, const ReduceWork& work, ElementRange range, StreamMask& streamed) {
  using T = hn::TFromD<D>;
  const std::size_t vector_bytes = hn::Lanes(d) * sizeof(T);
  ElementCount head = 0;
  bool found = false;
  for (std::size_t m = 0; m < std::min<std::size_t>(work.outputs.size(), 64); ++m) {
    if (((streamed >> m) & 1) == 0) {
      continue;
    }
    const auto at = reinterpret_cast<std::uintptr_t>(ElementsOf<T>(work.outputs[m]) + range.begin);
    const ElementCount needed = (0 - at) % vector_bytes / sizeof(T);
    if (work.outputs[m].dtype != work.accumulator || (found && needed != head)) {
      streamed &= ~(StreamMask{1} << m);
    } else {
      found = true;
      head = needed;
    }
  }
  return std::min(head, range.size());
}

template <typename A, Reduction kReduction>
void ReduceVectors(const ReduceWork& work, ElementRange range, StreamMask streamed) {
  const hn::ScalableTag<A> d;
  const std::size_t step = kUnroll * hn::Lanes(d);
  ElementCount i = range.begin;
  if (streamed != 0) {
    i += AlignStreams(d, work, range, streamed);
    ReduceScalars<A, kReduction>(work, {range.begin, i});
  }
  for (; range.end - i >= step; i += step) {
    ReduceFour<kReduction>(d, work, i, streamed);
  }
  ReduceScalars<A, kReduction>(work, {i, range.end});
}

// Integers are divided and multiplied one by one: both are rare, and vector units lack most of it.
template <typename A, Reduction kReduction>
void ReduceBy(const ReduceWork& work, ElementRange range, StreamMask streamed) {
  if constexpr (!hwy::IsFloat<A>()) {
    if constexpr (kReduction == Reduction::kProduct) {
      return ReduceScalars<A, kReduction>(work, range);
    } else {
      if (work.divisor != 0) {
        return ReduceScalars<A, kReduction>(work, range);
      }
      ReduceVectors<A, kReduction>(work, range, streamed);
    }
  } else {
    ReduceVectors<A, kReduction>(work, range, streamed);
  }
}

template <typename A>
void ReduceAs(const ReduceWork& work, ElementRange range, StreamMask streamed) {
  switch (work.reduction) {
    case Reduction::kSum:
    case Reduction::kMean:
      return ReduceBy<A, Reduction::kSum>(work, range, streamed);
    case Reduction::kMin:
      return ReduceBy<A, Reduction::kMin>(work, range, streamed);
    case Reduction::kMax:
      return ReduceBy<A, Reduction::kMax>(work, range, streamed);
    case Reduction::kProduct:
      return ReduceBy<A, Reduction::kProduct>(work, range, streamed);
  }
}

void ReduceRangeHere(const ReduceWork& work, ElementRange range, StreamMask streamed) {
  switch (work.accumulator) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return ReduceAs<float>(work, range, streamed);
    case DType::kF64:
      return ReduceAs<double>(work, range, streamed);
    case DType::kI8:
      return ReduceAs<std::int8_t>(work, range, streamed);
    case DType::kU8:
      return ReduceAs<std::uint8_t>(work, range, streamed);
    case DType::kI32:
      return ReduceAs<std::int32_t>(work, range, streamed);
    case DType::kI64:
      return ReduceAs<std::int64_t>(work, range, streamed);
  }
}

void StreamCopyHere(std::byte* target, const std::byte* source, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t n = hn::Lanes(d);
  auto* to = reinterpret_cast<std::uint8_t*>(target);
  const auto* from = reinterpret_cast<const std::uint8_t*>(source);
  std::size_t i = std::min<std::size_t>((0 - reinterpret_cast<std::uintptr_t>(to)) % n, bytes);
  std::memcpy(to, from, i);
  for (; bytes - i >= kUnroll * n; i += kUnroll * n) {
    const auto v =
        LoadEach(d, [&](std::size_t at) HWY_ATTR { return hn::LoadU(d, from + i + at); });
    StoreEach(d, v, [&](hn::Vec<decltype(d)> lanes, std::size_t at) HWY_ATTR {
      hn::Stream(lanes, d, to + i + at);
    });
  }
  std::memcpy(to + i, from + i, bytes - i);
}

const char* TargetHere() {
  return hwy::TargetName(HWY_TARGET);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace maypole::agent

HWY_AFTER_NAMESPACE();

#endif  // include guard per target
