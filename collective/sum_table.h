// Sums as symbols: which members' inputs a value holds, and in which association they were added.
//
// Pure. Equal associations have equal ids ((a + b) is (b + a)), so "the same bits" is equality of
// two integers. Internal to the verifier.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace maypole::collective {

using SumId = std::uint32_t;
inline constexpr SumId kNoSum = 0xffffffff;

class SumTable {
 public:
  explicit SumTable(std::uint32_t members);

  // The input of one member.
  SumId InputOf(std::uint32_t member) const { return member; }

  SumId Add(SumId left, SumId right);

  // Every member exactly once.
  bool Complete(SumId sum) const;

  // "lacks member 3", "counts member 1 twice"; empty if complete.
  std::string Defect(SumId sum) const;

  // "((0+1)+2)"; of two operands the one that holds the lower member comes first.
  std::string Text(SumId sum) const;

 private:
  static constexpr std::uint32_t kNobody = 0xffffffff;

  struct Node {
    SumId left = kNoSum;  // kNoSum: an input
    SumId right = kNoSum;
    std::uint32_t lowest = 0;
    std::uint32_t twice = kNobody;     // a member that is counted more than once
    std::vector<std::uint64_t> holds;  // a bit per member
  };

  std::uint32_t FirstMissing(const Node& node) const;

  std::uint32_t members_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, SumId> by_operands_;
};

}  // namespace maypole::collective
