// Which ranges of one segment are taken: first fit, neighbours merged when freed. Addresses are
// offsets; no memory is touched.
//
// Pure. Cost: linear in the number of free ranges, which is small: one per hole.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace maypole {

class FirstFit {
 public:
  explicit FirstFit(std::uint64_t bytes);

  // The offset of `bytes` > 0 free bytes. Empty if no hole is large enough.
  std::optional<std::uint64_t> Take(std::uint64_t bytes);
  // `offset` and `bytes` as they were taken; a bug of the caller's ends the process.
  void Give(std::uint64_t offset, std::uint64_t bytes);

  bool IsUnused() const { return holes_.size() == 1 && holes_.begin()->second == bytes_; }

 private:
  std::uint64_t bytes_;
  std::map<std::uint64_t, std::uint64_t> holes_;  // offset -> bytes
};

}  // namespace maypole
