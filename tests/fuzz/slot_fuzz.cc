// A client that writes anything into its control segment. The input is a series of 352-byte pieces:
// 8 bytes that say which slot, which state and how far the tail moves, then a request.
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "agent/segment/slot_reader.h"
#include "agent/segment/slot_ring.h"
#include "common/dtype.h"
#include "proto/control.h"
#include "proto/text.h"
#include "tests/fuzz/fuzz.h"

namespace {

using maypole::ControlSegment;
using maypole::SlotRequest;
using maypole::agent::BufferView;
using maypole::agent::MemoryKind;
using maypole::agent::SlotRing;
using maypole::fuzz::Require;

struct Piece {
  std::uint16_t slot = 0;
  std::uint16_t state = 1;
  std::uint32_t tail_step = 1;
  SlotRequest request;
};

static_assert(sizeof(Piece) == 352);

constexpr std::uint64_t kSegmentBytes = 1 << 16;
alignas(64) std::byte g_segment[kSegmentBytes];
constexpr std::uint64_t kSparseBytes = std::uint64_t{64} << 30;

// As large as an agent allows, which costs its client nothing: no copy of it can be paid for.
std::byte* Sparse() {
  static void* const memory =
      ::mmap(nullptr, kSparseBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Require(memory != MAP_FAILED, "64 GiB of addresses are there");
  return static_cast<std::byte*>(memory);
}

BufferView Find(std::uint32_t segment) {
  switch (segment) {
    case 1:
      return {MemoryKind::kHost, g_segment, kSegmentBytes};
    case 2:
      return {MemoryKind::kHost, Sparse(), kSparseBytes};
    default:
      return {};
  }
}

bool LiesIn(const BufferView& tensor, const BufferView& segment) {
  return tensor.address >= segment.address && tensor.bytes <= segment.bytes &&
         static_cast<std::uint64_t>(tensor.address - segment.address) <=
             segment.bytes - tensor.bytes;
}

void CheckPlace(const maypole::agent::Submission& op, const BufferView& tensor) {
  const auto* begin = tensor.address;
  Require(LiesIn(tensor, Find(1)) || LiesIn(tensor, Find(2)), "a tensor lies within its segment");
  Require(tensor.bytes / maypole::SizeOf(op.dtype) == op.elements, "a tensor has its elements");
  Require(reinterpret_cast<std::uintptr_t>(begin) % maypole::SizeOf(op.dtype) == 0,
          "a tensor is aligned");
}

void CheckRequest(const SlotRequest& request) {
  const auto read = maypole::agent::ReadSlot(request, Find);
  if (const auto* refusal = std::get_if<maypole::Outcome>(&read)) {
    Require(!refusal->ok() && !refusal->text.empty(), "a refusal says why");
    return;
  }
  const auto& op = std::get<maypole::agent::Submission>(read);
  Require(maypole::IsPrintableUtf8(op.name) && op.name.size() <= maypole::kNameBytesMax,
          "names are printable");
  Require(op.counts.size() <= maypole::kWorldSizeMax, "counts are one a rank");
  if (op.elements == 0) {
    return;
  }
  CheckPlace(op, op.tensor);
  if (op.collective == maypole::collective::Collective::kAllToAll) {
    CheckPlace(op, op.output);
  }
  Require(op.counts.empty() ||
              std::accumulate(op.counts.begin(), op.counts.end(), std::uint64_t{0}) == op.elements,
          "counts add up to the elements");
}

void Write(ControlSegment& control, const Piece& piece) {
  auto& header = control.header;
  const std::uint64_t tail = header.submit_tail.load();
  header.submit_ring[tail % maypole::kRingEntries].store(piece.slot);
  if (piece.slot < maypole::kSlotCount) {
    control.slots[piece.slot].request = piece.request;
    control.slots[piece.slot].state.store(piece.state);
  }
  header.submit_tail.store(tail + piece.tail_step);
}

void Serve(SlotRing& ring) {
  std::uint64_t taken = 0;
  while (const auto entry = ring.Take()) {
    Require(entry->slot < maypole::kSlotCount, "slots lie within the table");
    Require(++taken <= maypole::kRingEntries, "what one look takes is bounded");
    if (!entry->is_release) {
      CheckRequest(entry->request);
      ring.Complete(entry->slot, {}, {});
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto control = std::make_unique<ControlSegment>();
  std::fill_n(
      reinterpret_cast<std::byte*>(&control->header), sizeof(control->header), std::byte{0});
  SlotRing ring(*control);
  std::vector<std::uint16_t> touched;
  while (size > 0) {
    Piece piece;
    const std::size_t bytes = std::min(size, sizeof(piece));
    std::memcpy(static_cast<void*>(&piece), data, bytes);
    data += bytes;
    size -= bytes;
    CheckRequest(piece.request);
    Write(*control, piece);
    Serve(ring);
    touched.push_back(piece.slot);
  }
  for (const std::uint16_t slot : touched) {
    control->slots[slot % maypole::kSlotCount].state.store(0);
  }
  return 0;
}

std::vector<maypole::fuzz::Bytes> maypole::fuzz::Seeds() {
  Piece in_place;
  in_place.request.segment = 1;
  in_place.request.elements = 100;
  in_place.request.name_bytes =
      static_cast<std::uint16_t>(StoreText(in_place.request.name, "layer1"));
  Piece shared = in_place;
  shared.slot = 1;
  shared.request.flags = kSlotSharedResult;
  Piece release = shared;
  release.state = 3;
  Piece gather = in_place;
  gather.request.collective =
      static_cast<std::uint8_t>(maypole::collective::Collective::kAllGather);
  gather.request.elements = 0;
  gather.request.counts_segment = 2;
  gather.request.counts_entries = 0xffffffff;
  Bytes life = BytesOf(shared);
  const Bytes end = BytesOf(release);
  life.insert(life.end(), end.begin(), end.end());
  return {BytesOf(in_place), BytesOf(shared), BytesOf(gather), life};
}
