// Vectors of one accumulator type: loading from any operand type, the reductions, storing to any
// operand type. Same bits as agent/reduce/arithmetic.h.
#if defined(MAYPOLE_AGENT_REDUCE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAYPOLE_AGENT_REDUCE_LANES_INL_H_
#undef MAYPOLE_AGENT_REDUCE_LANES_INL_H_
#else
#define MAYPOLE_AGENT_REDUCE_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <limits>

#include <hwy/highway.h>

#include "agent/reduce/arithmetic.h"

// Highway converts f16 in software where the processor cannot, but without rounding to nearest
// even.
#undef MAYPOLE_NATIVE_F16
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || \
    HWY_ARCH_ARM_A64
#define MAYPOLE_NATIVE_F16 1
#else
#define MAYPOLE_NATIVE_F16 0
#endif

HWY_BEFORE_NAMESPACE();

namespace maypole::agent {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> LoadF16(D d, const std::uint16_t* from) {
#if MAYPOLE_NATIVE_F16
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
    lanes[i] = F32FromF16(from[i]);
  }
  return hn::Load(d, lanes);
#endif
}

// `v` holds canonical NaNs only.
template <class D>
HWY_INLINE void StoreF16([[maybe_unused]] D d, hn::Vec<D> v, std::uint16_t* to) {
#if MAYPOLE_NATIVE_F16
  const hn::Rebind<hwy::float16_t, D> dh;
  hn::StoreU(hn::DemoteTo(dh, v), dh, reinterpret_cast<hwy::float16_t*>(to));
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
    to[i] = F16FromF32(lanes[i]);
  }
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> LoadBF16(D d, const std::uint16_t* from) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> dh;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, from))));
}

// `v` holds canonical NaNs only, which this rounding leaves alone.
template <class D>
HWY_INLINE void StoreBF16([[maybe_unused]] D d, hn::Vec<D> v, std::uint16_t* to) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint16_t, D> dh;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF))));
  hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, rounded)), dh, to);
}

template <class D, class V>
HWY_INLINE V CanonicalLanes(D d, V v) {
  using T = hn::TFromD<D>;
  if constexpr (hwy::IsFloat<T>()) {
    return hn::IfThenElse(hn::Eq(v, v), v, hn::Set(d, std::numeric_limits<T>::quiet_NaN()));
  } else {
    return v;
  }
}

template <bool kMin, class D, class V>
HWY_INLINE V Extreme(D d, V a, V b) {
  using T = hn::TFromD<D>;
  if constexpr (hwy::IsFloat<T>()) {
    // Equal numbers differ at most in the sign of a zero.
    const V equal = kMin ? hn::Or(a, b) : hn::And(a, b);
    const V ordered = hn::IfThenElse(hn::Eq(a, b), equal, kMin ? hn::Min(a, b) : hn::Max(a, b));
    const V nan = hn::Set(d, std::numeric_limits<T>::quiet_NaN());
    return hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Eq(b, b), ordered, nan), nan);
  } else {
    return kMin ? hn::Min(a, b) : hn::Max(a, b);
  }
}

template <Reduction kReduction, class D, class V>
HWY_INLINE V CombineLanes(D d, V a, V b) {
  if constexpr (kReduction == Reduction::kMin) {
    return Extreme<true>(d, a, b);
  } else if constexpr (kReduction == Reduction::kMax) {
    return Extreme<false>(d, a, b);
  } else if constexpr (kReduction == Reduction::kProduct) {
    return hn::Mul(a, b);
  } else {
    return hn::Add(a, b);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace maypole::agent

HWY_AFTER_NAMESPACE();

#endif  // include guard per target
