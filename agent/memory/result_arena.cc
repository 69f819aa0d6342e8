#include "agent/memory/result_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/check.h"

// Since Linux 5.1; older C libraries lack the name.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace maypole::agent {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 46;  // no address space is larger

// What a result of `bytes` takes: at least a page, so that every result has a place of its own.
std::uint64_t PagesOf(std::uint64_t bytes) {
  return std::max<std::uint64_t>(1, (bytes + kPageBytes - 1) / kPageBytes) * kPageBytes;
}

}  // namespace

std::optional<SharedResult> ResultArena::Allocate(std::uint64_t bytes) {
  if (bytes > kBytesMax) {
    return std::nullopt;
  }
  const std::uint64_t taken = PagesOf(bytes);
  for (bool is_new = false;; is_new = true) {
    for (auto& [number, segment] : segments_) {
      if (const auto offset = segment.space.Take(taken)) {
        in_use_bytes_ += taken;
        return SharedResult{
            number, *offset, {MemoryKind::kHost, segment.mapping.data() + *offset, bytes}};
      }
    }
    if (is_new || !AddSegment(taken)) {
      return std::nullopt;
    }
  }
}

void ResultArena::Free(const SharedResult& result) {
  const auto found = segments_.find(result.segment);
  MAYPOLE_CHECK(found != segments_.end());
  const std::uint64_t bytes = PagesOf(result.view.bytes);
  found->second.space.Give(result.offset, bytes);
  in_use_bytes_ -= bytes;
  DropEmptySegments(1);
}

int ResultArena::OpenSegment(std::uint32_t segment, std::uint64_t& bytes) const {
  const auto found = segments_.find(segment);
  if (found == segments_.end()) {
    return -1;
  }
  bytes = found->second.mapping.size();
  return ::fcntl(found->second.fd.get(), F_DUPFD_CLOEXEC, 0);
}

std::optional<ResultArena::Segment> ResultArena::MakeSegment(std::uint64_t bytes) const {
  Segment segment{.fd = {}, .mapping = {}, .space = FirstFit(bytes)};
  segment.fd.Reset(::memfd_create("maypole-result", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment.fd.valid() || ::ftruncate(segment.fd.get(), static_cast<off_t>(bytes)) != 0) {
    return std::nullopt;
  }
  segment.mapping = MappedRegion::Map(segment.fd.get(), bytes, MapAccess::kReadWrite);
  if (!segment.mapping.valid()) {
    return std::nullopt;
  }
  ::madvise(segment.mapping.data(), bytes, MADV_HUGEPAGE);  // a wish; small pages do as well
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  if (::fcntl(segment.fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return std::nullopt;
  }
  return segment;
}

bool ResultArena::AddSegment(std::uint64_t bytes_min) {
  if (bytes_max_ - total_bytes_ < std::max(bytes_min, segment_bytes_)) {
    DropEmptySegments(0);  // none of them was large enough
  }
  const std::uint64_t left = (bytes_max_ - total_bytes_) / kPageBytes * kPageBytes;
  if (left < bytes_min) {
    return false;
  }
  const std::uint64_t bytes = std::max(bytes_min, std::min(PagesOf(segment_bytes_), left));
  std::optional<Segment> segment = MakeSegment(bytes);
  if (!segment.has_value()) {
    return false;
  }
  segments_.emplace(next_number_++, *std::move(segment));
  total_bytes_ += bytes;
  return true;
}

void ResultArena::DropEmptySegments(std::size_t kept) {
  for (auto it = segments_.begin(); it != segments_.end();) {
    const bool is_unused = it->second.space.IsUnused();
    if (!is_unused || kept > 0) {
      kept -= is_unused ? 1 : 0;
      ++it;
    } else {
      total_bytes_ -= it->second.mapping.size();
      it = segments_.erase(it);
    }
  }
}

}  // namespace maypole::agent
