// What the links between nodes cost, as the agents measured it. Pure.
//
// A pair is measured by one of the two, and taken to be the same both ways.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "collective/cost.h"
#include "common/time.h"

namespace maypole::server {

struct LinkCost {
  collective::LinkModel model;
  std::uint32_t samples = 0;
  TimePoint measured;
};

class LinkTable {
 public:
  using Pair = std::pair<std::string, std::string>;  // first < second

  static Pair PairOf(const std::string& a, const std::string& b) {
    return a < b ? Pair(a, b) : Pair(b, a);
  }

  void Set(const std::string& a, const std::string& b, LinkCost cost) {
    costs_[PairOf(a, b)] = cost;
  }

  // Null if it was never measured.
  const LinkCost* Find(const std::string& a, const std::string& b) const {
    const auto found = costs_.find(PairOf(a, b));
    return found == costs_.end() ? nullptr : &found->second;
  }

  void Forget(const std::string& node) {
    std::erase_if(costs_, [&](const auto& entry) {
      return entry.first.first == node || entry.first.second == node;
    });
  }

  const std::map<Pair, LinkCost>& all() const { return costs_; }

 private:
  std::map<Pair, LinkCost> costs_;
};

}  // namespace maypole::server
