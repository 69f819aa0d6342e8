#include "common/first_fit.h"

#include <iterator>

#include "common/check.h"

namespace maypole {

FirstFit::FirstFit(std::uint64_t bytes) : bytes_(bytes), holes_{{0, bytes}} {}

std::optional<std::uint64_t> FirstFit::Take(std::uint64_t bytes) {
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (hole->second < bytes) {
      continue;
    }
    const auto [offset, size] = *hole;
    holes_.erase(hole);
    if (size > bytes) {
      holes_.emplace(offset + bytes, size - bytes);
    }
    return offset;
  }
  return std::nullopt;
}

void FirstFit::Give(std::uint64_t offset, std::uint64_t bytes) {
  auto next = holes_.lower_bound(offset);
  const std::uint64_t end = next == holes_.end() ? bytes_ : next->first;
  MAYPOLE_CHECK(offset <= end && bytes <= end - offset);
  if (next != holes_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    MAYPOLE_CHECK(before->first + before->second <= offset);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  holes_.emplace(offset, bytes);
}

}  // namespace maypole
