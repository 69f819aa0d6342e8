// A ring that crosses slow and far links as seldom as possible. Pure.
//
// What an order costs: of a ring all-reduce every link carries 2(P-1)/P N bytes, at the pace of the
// slowest of them, and the first slice goes round 2(P-1)/P times, over each of them. The simulator
// finds the same (ring_order_test.cc).
// Exact up to kExactNodes; beyond, nearest neighbours from every start, improved by reversing parts
// of the ring while that helps (2-opt; Croes, "A method for solving traveling-salesman problems",
// Operations Research 6(6), 1958); beyond kImprovedNodes nearest neighbours alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/cost.h"

namespace maypole::server {

// Between any two of n nodes; symmetric.
class LinkMatrix {
 public:
  explicit LinkMatrix(std::size_t nodes) : nodes_(nodes), links_(nodes * nodes) {}

  const collective::LinkModel& at(std::size_t a, std::size_t b) const {
    return links_[a * nodes_ + b];
  }

  void Set(std::size_t a, std::size_t b, const collective::LinkModel& link) {
    links_[a * nodes_ + b] = links_[b * nodes_ + a] = link;
  }

  std::size_t size() const { return nodes_; }

 private:
  std::size_t nodes_;
  std::vector<collective::LinkModel> links_;
};

// The group of each node at one level.
using Grouping = std::vector<std::uint32_t>;

inline constexpr std::size_t kExactNodes = 9;
inline constexpr std::size_t kImprovedNodes = 128;

// A slice over one link: what is compared where one number has to stand for a link.
double LinkSeconds(const collective::LinkModel& link);

// A slice once round the ring in this order.
double LapSeconds(const LinkMatrix& links, const std::vector<std::size_t>& order);

// The cheapest order in which the groups of every level (innermost first) stand together. The group
// of node 0 stands first; without groups node 0 itself does.
std::vector<std::size_t> BestRing(const LinkMatrix& links, const std::vector<Grouping>& levels);

}  // namespace maypole::server
