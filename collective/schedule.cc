#include "collective/schedule.h"

#include <algorithm>

#include "common/check.h"

namespace maypole::collective {
namespace {

constexpr ElementCount kAlignedElements = 64;
constexpr ElementCount kAlignFrom = 8192;

}  // namespace

std::optional<Algorithm> AlgorithmFromName(std::string_view name) {
  const auto found = std::find_if(kAlgorithms.begin(), kAlgorithms.end(), [&](Algorithm algorithm) {
    return Name(algorithm) == name;
  });
  return found == kAlgorithms.end() ? std::nullopt : std::optional(*found);
}

std::optional<Collective> CollectiveFromName(std::string_view name) {
  for (std::size_t number = 0; number < kCollectiveCount; ++number) {
    if (Name(static_cast<Collective>(number)) == name) {
      return static_cast<Collective>(number);
    }
  }
  return std::nullopt;
}

ElementRange ChunkOf(ElementCount elements, std::uint32_t members, std::uint32_t index) {
  MAYPOLE_CHECK(members > 0 && index < members);
  ElementCount size = elements / members + (elements % members != 0 ? 1 : 0);
  if (size >= kAlignFrom) {
    size = (size + kAlignedElements - 1) / kAlignedElements * kAlignedElements;
  }
  if (size == 0 || index >= elements / size + 1) {
    return {elements, elements};
  }
  const ElementCount begin = index * size;
  return {begin, begin + std::min(size, elements - begin)};
}

}  // namespace maypole::collective
