// Compiled once per instruction set by foreach_target.h.
#include "agent/reduce/reduce_kernels.h"

#include <algorithm>
#include <cstring>

#include "agent/reduce/operands.h"

// SVE: its vectors have no size and fit in no struct; NEON is as good for loops that wait for
// memory. SSSE3: SSE4 serves.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "agent/reduce/reduce_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "agent/reduce/reduce_kernels-inl.h"

#if HWY_ONCE
namespace maypole::agent {
namespace {

HWY_EXPORT(ReduceRangeHere);
HWY_EXPORT(StreamCopyHere);
HWY_EXPORT(TargetHere);

}  // namespace

void ReduceRange(const ReduceWork& work, ElementRange range, StreamMask streamed) {
  HWY_DYNAMIC_DISPATCH(ReduceRangeHere)(work, range, streamed);
}

void StreamCopy(std::byte* target, const std::byte* source, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(StreamCopyHere)(target, source, bytes);
}

void FlushStreams() {
  hwy::FlushStream();
}

const char* KernelTarget() {
  return HWY_DYNAMIC_DISPATCH(TargetHere)();
}

}  // namespace maypole::agent
#endif  // HWY_ONCE
