#include "collective/sum_table.h"

#include <algorithm>
#include <bit>

namespace maypole::collective {

SumTable::SumTable(std::uint32_t members) : members_(members) {
  for (std::uint32_t member = 0; member < members; ++member) {
    Node& node = nodes_.emplace_back();
    node.lowest = member;
    node.holds.resize((members + 63) / 64);
    node.holds[member / 64] = std::uint64_t{1} << member % 64;
  }
}

SumId SumTable::Add(SumId left, SumId right) {
  if (nodes_[right].lowest < nodes_[left].lowest) {
    std::swap(left, right);
  }
  // Sums with equal lowest members overlap and are faults; their order does not matter.
  const std::uint64_t key = std::uint64_t{left} << 32 | right;
  const auto [entry, added] = by_operands_.try_emplace(key, static_cast<SumId>(nodes_.size()));
  if (!added) {
    return entry->second;
  }
  Node sum = nodes_[left];
  const Node& other = nodes_[right];
  sum.left = left;
  sum.right = right;
  sum.twice = std::min(sum.twice, other.twice);
  for (std::size_t word = 0; word < sum.holds.size(); ++word) {
    if (const std::uint64_t both = sum.holds[word] & other.holds[word]; both != 0) {
      const auto member = static_cast<std::uint32_t>(word * 64) +
                          static_cast<std::uint32_t>(std::countr_zero(both));
      sum.twice = std::min(sum.twice, member);
    }
    sum.holds[word] |= other.holds[word];
  }
  nodes_.push_back(std::move(sum));
  return entry->second;
}

std::uint32_t SumTable::FirstMissing(const Node& node) const {
  for (std::uint32_t member = 0; member < members_; ++member) {
    if ((node.holds[member / 64] >> member % 64 & 1) == 0) {
      return member;
    }
  }
  return kNobody;
}

bool SumTable::Complete(SumId sum) const {
  const Node& node = nodes_[sum];
  return node.twice == kNobody && FirstMissing(node) == kNobody;
}

std::string SumTable::Defect(SumId sum) const {
  const Node& node = nodes_[sum];
  if (node.twice != kNobody) {
    return "counts member " + std::to_string(node.twice) + " twice";
  }
  const std::uint32_t missing = FirstMissing(node);
  return missing == kNobody ? "" : "lacks member " + std::to_string(missing);
}

std::string SumTable::Text(SumId sum) const {
  const Node& node = nodes_[sum];
  if (node.left == kNoSum) {
    return std::to_string(sum);
  }
  return "(" + Text(node.left) + "+" + Text(node.right) + ")";
}

}  // namespace maypole::collective
