#include "agent/segment/slot_reader.h"

#include <optional>
#include <string>
#include <utility>

#include "collective/schedule.h"
#include "proto/text.h"

namespace maypole::agent {
namespace {

constexpr std::uint32_t kKnownFlags = kSlotSharedResult | kSlotOverwrite;

Outcome Invalid(const std::string& what, std::uint64_t value, const std::string& why) {
  return {ErrorCode::kInvalidArgument, what + ' ' + std::to_string(value) + ' ' + why, ""};
}

Outcome CheckNumbers(const SlotRequest& request) {
  if (request.collective > static_cast<std::uint8_t>(collective::Collective::kBarrier)) {
    return Invalid("collective", request.collective, "does not exist");
  }
  if (!DTypeFromNumber(request.dtype)) {
    return Invalid("dtype", request.dtype, "does not exist");
  }
  if (!ReductionFromNumber(request.reduction)) {
    return Invalid("reduction", request.reduction, "does not exist");
  }
  if (request.algorithm > collective::kAlgorithms.size()) {
    return Invalid("algorithm", request.algorithm, "does not exist");
  }
  if ((request.flags & ~kKnownFlags) != 0) {
    return Invalid("flags", request.flags, "has bits that mean nothing");
  }
  if (request.reserved != 0) {
    return Invalid("the reserved field", request.reserved, "is not 0");
  }
  return {};
}

Outcome CheckName(const SlotRequest& request) {
  if (request.name_bytes > kNameBytesMax) {
    return Invalid("name length", request.name_bytes, "is above 255 bytes");
  }
  if (!IsPrintableUtf8(LoadText(request.name, request.name_bytes))) {
    return {ErrorCode::kInvalidArgument, "the op's name is not printable UTF-8", ""};
  }
  return {};
}

// The tensor's place; `tensor` is filled on success.
Outcome PlaceTensor(const SlotRequest& request, FindSegment find, BufferView& tensor) {
  const std::uint64_t element_bytes = SizeOf(static_cast<DType>(request.dtype));
  const BufferView segment = find(request.segment);
  if (segment.address == nullptr) {
    return Invalid("segment", request.segment, "does not exist in this session");
  }
  if (request.offset % element_bytes != 0) {
    return Invalid(
        "offset",
        request.offset,
        "is not aligned to its element size of " + std::to_string(element_bytes) + " bytes");
  }
  // Division instead of multiplication: nothing here can overflow.
  if (request.offset > segment.bytes ||
      request.elements > (segment.bytes - request.offset) / element_bytes) {
    return Invalid("element count",
                   request.elements,
                   "of " + std::to_string(element_bytes) + " bytes at offset " +
                       std::to_string(request.offset) + " reaches outside segment " +
                       std::to_string(request.segment) + " of " + std::to_string(segment.bytes) +
                       " bytes");
  }
  tensor = segment.Sub(request.offset, request.elements * element_bytes);
  return {};
}

}  // namespace

std::variant<Submission, Outcome> ReadSlot(const SlotRequest& request, FindSegment find) {
  if (Outcome checked = CheckNumbers(request); !checked.ok()) {
    return checked;
  }
  if (Outcome checked = CheckName(request); !checked.ok()) {
    return checked;
  }
  Submission submission;
  submission.collective = static_cast<collective::Collective>(request.collective);
  if (submission.collective == collective::Collective::kBarrier && request.elements != 0) {
    return Invalid("element count", request.elements, "of a barrier is not 0");
  }
  if (request.elements > 0) {
    if (Outcome placed = PlaceTensor(request, find, submission.tensor); !placed.ok()) {
      return placed;
    }
  }
  submission.name = LoadText(request.name, request.name_bytes);
  submission.algorithm = static_cast<collective::Algorithm>(request.algorithm);
  submission.dtype = static_cast<DType>(request.dtype);
  submission.reduction = static_cast<Reduction>(request.reduction);
  submission.shared_result = (request.flags & kSlotSharedResult) != 0;
  submission.overwrite = (request.flags & kSlotOverwrite) != 0;
  submission.priority = request.priority;
  submission.elements = request.elements;
  submission.timeout = Duration(request.timeout_ns);
  return submission;
}

}  // namespace maypole::agent
