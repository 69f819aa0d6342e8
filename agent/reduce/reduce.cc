#include <algorithm>
#include <cstring>
#include <vector>

#include "agent/reduce/operands.h"
#include "agent/reduce/reduce_kernels.h"
#include "agent/reduce/work.h"
#include "common/check.h"

namespace maypole::agent {
namespace {

// An output that is not also an input costs a read of each line before it is written, unless it is
// stored past the caches (1.4 to 2 times as fast from memory). Smaller pieces may be read again
// before they leave the cache.
constexpr std::uint64_t kStreamBytesMin = 256 * 1024;
// Saves are never read unless the op fails.
constexpr std::uint64_t kStreamSaveBytesMin = 4096;
// A part of every operand that stays in the first-level cache while it is saved, reduced, or copied
// several times.
constexpr std::uint64_t kBlockBytes = 8 * 1024;

std::uint64_t BytesOf(const ReduceWork& work, const Operand& operand) {
  return work.elements * SizeOf(operand.dtype);
}

bool IsInput(const ReduceWork& work, const std::byte* address) {
  return address == work.received.buffer.address ||
         std::any_of(work.inputs.begin(), work.inputs.end(), [&](const Operand& input) {
           return input.buffer.address == address;
         });
}

bool IsStreamed(const ReduceWork& work, const Operand& output) {
  return BytesOf(work, output) >= kStreamBytesMin && !IsInput(work, output.buffer.address);
}

StreamMask StreamedOutputs(const ReduceWork& work) {
  StreamMask mask = 0;
  for (std::size_t m = 0; m < std::min<std::size_t>(work.outputs.size(), 64); ++m) {
    if (IsStreamed(work, work.outputs[m])) {
      mask |= StreamMask{1} << m;
    }
  }
  return mask;
}

void CopyBytes(std::byte* target, const std::byte* source, std::uint64_t bytes, bool streamed) {
  if (target == source || bytes == 0) {
    return;
  }
  streamed ? StreamCopy(target, source, bytes)
           : static_cast<void>(std::memcpy(target, source, bytes));
}

void CopyRange(const ReduceWork& work, ElementRange range, StreamMask streamed) {
  const Operand& input = work.inputs.front();
  const std::size_t size = SizeOf(input.dtype);
  for (std::size_t m = 0; m < work.outputs.size(); ++m) {
    CopyBytes(work.outputs[m].buffer.address + range.begin * size,
              input.buffer.address + range.begin * size,
              range.size() * size,
              m < 64 && ((streamed >> m) & 1) != 0);
  }
}

// A save of exactly one output: it can be done block by block, each block before its reduction.
struct OutputSave {
  const Operand* output = nullptr;
  std::byte* target = nullptr;
};

// Does the saves that are not of exactly one output, and returns those that are.
std::vector<OutputSave> DoOtherSaves(const ReduceWork& work) {
  std::vector<OutputSave> of_outputs;
  for (const ReduceWork::Save& save : work.saves) {
    const auto output =
        std::find_if(work.outputs.begin(), work.outputs.end(), [&](const Operand& candidate) {
          return candidate.buffer.address == save.source.address &&
                 BytesOf(work, candidate) == save.source.bytes;
        });
    if (output != work.outputs.end()) {
      of_outputs.push_back({&*output, save.target.address});
    } else {
      CopyBytes(save.target.address,
                save.source.address,
                save.source.bytes,
                save.source.bytes >= kStreamSaveBytesMin);
    }
  }
  return of_outputs;
}

void CheckOperand(const ReduceWork& work, const Operand& operand) {
  MAYPOLE_CHECK(AccumulatorOf(operand.dtype) == work.accumulator);
  MAYPOLE_CHECK(operand.buffer.kind == MemoryKind::kHost);
}

void CheckWork(const ReduceWork& work) {
  MAYPOLE_CHECK(!work.inputs.empty());
  std::for_each(
      work.inputs.begin(), work.inputs.end(), [&](const Operand& o) { CheckOperand(work, o); });
  std::for_each(
      work.outputs.begin(), work.outputs.end(), [&](const Operand& o) { CheckOperand(work, o); });
  if (work.received.buffer.address != nullptr) {
    CheckOperand(work, work.received);
  }
}

void ReduceBlocks(const ReduceWork& work, const std::vector<OutputSave>& saves) {
  const StreamMask streamed = StreamedOutputs(work);
  const bool is_copy = IsCopy(work);
  const bool in_one_go = saves.empty() && (!is_copy || work.outputs.size() == 1);
  const ElementCount block = in_one_go ? work.elements : kBlockBytes / SizeOf(work.accumulator);
  for (ElementCount begin = 0; begin < work.elements; begin += block) {
    const ElementRange range{begin, begin + std::min(block, work.elements - begin)};
    for (const OutputSave& save : saves) {
      const std::size_t size = SizeOf(save.output->dtype);
      CopyBytes(save.target + range.begin * size,
                save.output->buffer.address + range.begin * size,
                range.size() * size,
                BytesOf(work, *save.output) >= kStreamSaveBytesMin);
    }
    is_copy ? CopyRange(work, range, streamed) : ReduceRange(work, range, streamed);
  }
}

}  // namespace

void Reduce(const ReduceWork& work) {
  const std::vector<OutputSave> saves = DoOtherSaves(work);
  if (work.elements > 0 && !work.outputs.empty()) {
    CheckWork(work);
    ReduceBlocks(work, saves);
  }
  FlushStreams();
}

const char* ReduceTarget() {
  return KernelTarget();
}

}  // namespace maypole::agent
