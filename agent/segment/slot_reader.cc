#include "agent/segment/slot_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "collective/parts.h"
#include "proto/control.h"
#include "proto/text.h"

namespace maypole::agent {
namespace {

constexpr ElementCount kElementsMax = std::numeric_limits<ElementCount>::max();
constexpr std::uint32_t kKnownFlags = kSlotSharedResult | kSlotOverwrite;

Outcome Invalid(const std::string& what, std::uint64_t value, const std::string& why) {
  return {ErrorCode::kInvalidArgument, what + ' ' + std::to_string(value) + ' ' + why, ""};
}

Outcome CheckNumbers(const SlotRequest& request) {
  if (request.collective >= collective::kCollectiveCount) {
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
  const auto collective = static_cast<collective::Collective>(request.collective);
  const auto algorithm = static_cast<collective::Algorithm>(request.algorithm);
  if (!IsAvailable(collective, algorithm)) {
    const bool has_ring = IsAvailable(collective, collective::Algorithm::kRing);
    return {ErrorCode::kInvalidArgument,
            "algorithm \"" + std::string(Name(algorithm)) + "\" does not exist for " +
                std::string(Name(collective)) + "; ask for auto" +
                (has_ring ? ", ring, direct or tree" : " or direct"),
            ""};
  }
  if ((request.flags & kSlotSharedResult) != 0 && !EverybodyGetsAll(collective)) {
    return {ErrorCode::kInvalidArgument,
            "a shared result is possible where all ranks get the same, not for " +
                std::string(Name(collective)),
            ""};
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

// A run of elements in a segment, as a client says it.
struct Run {
  const char* what;
  std::uint32_t segment;
  std::uint64_t offset;
  std::uint64_t elements;
  std::uint64_t element_bytes;
};

// `view` is filled on success.
Outcome Place(const Run& run, FindSegment find, BufferView& view) {
  const std::string what = run.what;
  const BufferView segment = find(run.segment);
  if (segment.address == nullptr) {
    return Invalid(what + "segment", run.segment, "does not exist in this session");
  }
  if (run.offset % run.element_bytes != 0) {
    return Invalid(
        what + "offset",
        run.offset,
        "is not aligned to its element size of " + std::to_string(run.element_bytes) + " bytes");
  }
  // Division instead of multiplication: nothing here can overflow.
  if (run.offset > segment.bytes ||
      run.elements > (segment.bytes - run.offset) / run.element_bytes) {
    return Invalid(what + "element count",
                   run.elements,
                   "of " + std::to_string(run.element_bytes) + " bytes at offset " +
                       std::to_string(run.offset) + " reaches outside segment " +
                       std::to_string(run.segment) + " of " + std::to_string(segment.bytes) +
                       " bytes");
  }
  view = segment.Sub(run.offset, run.elements * run.element_bytes);
  return {};
}

Outcome PlaceTensors(const SlotRequest& request, FindSegment find, Submission& submission) {
  const std::uint64_t element_bytes = SizeOf(submission.dtype);
  Outcome placed = Place({"", request.segment, request.offset, request.elements, element_bytes},
                         find,
                         submission.tensor);
  if (!placed.ok() || submission.collective != collective::Collective::kAllToAll) {
    return placed;
  }
  placed = Place(
      {"output ", request.output_segment, request.output_offset, request.elements, element_bytes},
      find,
      submission.output);
  const std::uint64_t apart = std::max(request.offset, request.output_offset) -
                              std::min(request.offset, request.output_offset);
  if (placed.ok() && request.segment == request.output_segment && apart < submission.tensor.bytes) {
    return Invalid("output offset",
                   request.output_offset,
                   "overlaps the input at offset " + std::to_string(request.offset));
  }
  return placed;
}

// Copies the table of counts, which the client could change at any time.
Outcome ReadCounts(const SlotRequest& request, FindSegment find, Submission& submission) {
  if (request.counts_entries == 0 || !HasCounts(submission.collective)) {
    return {};
  }
  // A segment may be sparse and large; only a rank each can be meant.
  if (request.counts_entries > kWorldSizeMax) {
    return Invalid("counts element count",
                   request.counts_entries,
                   "is above " + std::to_string(kWorldSizeMax) + ", the largest world size");
  }
  BufferView table;
  if (Outcome placed = Place({"counts ",
                              request.counts_segment,
                              request.counts_offset,
                              request.counts_entries,
                              sizeof(std::uint64_t)},
                             find,
                             table);
      !placed.ok()) {
    return placed;
  }
  submission.counts.resize(request.counts_entries);
  std::memcpy(submission.counts.data(), table.address, table.bytes);
  ElementCount sum = 0;
  for (const ElementCount count : submission.counts) {
    sum = count > kElementsMax - sum ? kElementsMax : sum + count;
  }
  if (sum != request.elements) {
    return Invalid("element count",
                   request.elements,
                   "is not the sum of the counts, which is " + std::to_string(sum));
  }
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
  submission.dtype = static_cast<DType>(request.dtype);
  submission.elements = request.elements;
  if (request.elements > 0) {
    if (Outcome placed = PlaceTensors(request, find, submission); !placed.ok()) {
      return placed;
    }
  }
  if (Outcome read = ReadCounts(request, find, submission); !read.ok()) {
    return read;
  }
  if (HasRoot(submission.collective)) {
    submission.root = Rank(request.root);
  }
  if (submission.collective == collective::Collective::kSendReceive) {
    submission.peer = Rank(request.peer);
  }
  submission.name = LoadText(request.name, request.name_bytes);
  submission.algorithm = static_cast<collective::Algorithm>(request.algorithm);
  submission.reduction = static_cast<Reduction>(request.reduction);
  submission.shared_result = (request.flags & kSlotSharedResult) != 0;
  submission.overwrite = (request.flags & kSlotOverwrite) != 0;
  submission.priority = request.priority;
  submission.timeout = Duration(request.timeout_ns);
  return submission;
}

}  // namespace maypole::agent
