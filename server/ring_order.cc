#include "server/ring_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace maypole::server {
namespace {

constexpr double kTensorBytes = 32 << 20;
constexpr double kSliceBytes = 256 << 10;
// Above this, searching from every node as a start takes too long.
constexpr std::size_t kManyStarts = 32;

using Order = std::vector<std::size_t>;

double PaceOf(const collective::LinkModel& link) {
  return 1 / link.bytes_per_second + link.message_seconds / kSliceBytes;
}

class Search {
 public:
  Search(const LinkMatrix& links, const std::vector<Grouping>& levels)
      : links_(links), levels_(levels) {
    for (std::size_t a = 0; a < links.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        border_ += kTensorBytes * PaceOf(links.at(a, b)) + LinkSeconds(links.at(a, b));
      }
    }
  }

  Order Best() {
    if (links_.size() <= kExactNodes) {
      SortByDistance();
      Order order = {0};
      std::vector<bool> used(links_.size(), false);
      used[0] = true;
      Enumerate(order, used, 0, 0);
    } else {
      const std::size_t starts = links_.size() <= kManyStarts ? links_.size() : 1;
      for (std::size_t start = 0; start < starts; ++start) {
        Consider(Improved(Nearest(start)));
      }
    }
    return best_;
  }

 private:
  void SortByDistance() {
    for (std::size_t from = 0; from < links_.size(); ++from) {
      std::vector<std::size_t>& nodes = by_distance_.emplace_back(links_.size());
      std::iota(nodes.begin(), nodes.end(), std::size_t{0});
      std::stable_sort(nodes.begin(), nodes.end(), [&](std::size_t a, std::size_t b) {
        return Step(from, a) < Step(from, b);
      });
    }
  }

  // With what it costs to leave a group: more than any ring, so that groups are left as seldom as
  // possible.
  double Step(std::size_t a, std::size_t b) const {
    double seconds = LinkSeconds(links_.at(a, b));
    for (const Grouping& level : levels_) {
      seconds += level[a] != level[b] ? border_ : 0;
    }
    return seconds;
  }

  double Pace(std::size_t a, std::size_t b) const { return PaceOf(links_.at(a, b)); }

  double CostOf(const Order& order) const {
    double steps = 0;
    double pace = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::size_t next = order[(i + 1) % order.size()];
      steps += Step(order[i], next);
      pace = std::max(pace, Pace(order[i], next));
    }
    return steps + kTensorBytes * pace;
  }

  void Consider(Order order) {
    const double cost = CostOf(order);
    if (cost < best_cost_ * (1 - 1e-9)) {
      best_cost_ = cost;
      best_ = std::move(order);
    }
  }

  // Every order that begins like this one and is not a mirror image of one that was seen; near
  // nodes first, so that of equal orders the one that stays in a group is kept.
  void Enumerate(Order& order, std::vector<bool>& used, double steps, double pace) {
    if (steps + kTensorBytes * pace >= best_cost_) {
      return;
    }
    if (order.size() == links_.size()) {
      if (order.size() < 3 || order[1] < order.back()) {
        Consider(order);
      }
      return;
    }
    const std::size_t last = order.back();
    for (const std::size_t next : by_distance_[last]) {
      if (used[next]) {
        continue;
      }
      used[next] = true;
      order.push_back(next);
      Enumerate(order, used, steps + Step(last, next), std::max(pace, Pace(last, next)));
      order.pop_back();
      used[next] = false;
    }
  }

  Order Nearest(std::size_t start) const {
    Order order = {start};
    std::vector<bool> used(links_.size(), false);
    used[start] = true;
    while (order.size() < links_.size()) {
      std::size_t nearest = links_.size();
      for (std::size_t node = 0; node < links_.size(); ++node) {
        if (!used[node] &&
            (nearest == links_.size() || Step(order.back(), node) < Step(order.back(), nearest))) {
          nearest = node;
        }
      }
      used[nearest] = true;
      order.push_back(nearest);
    }
    return order;
  }

  Order Improved(Order order) const {
    if (order.size() > kImprovedNodes) {
      return order;
    }
    double cost = CostOf(order);
    for (bool better = true; better;) {
      better = false;
      for (auto first = order.begin() + 1; first != order.end(); ++first) {
        for (auto last = first + 2; last <= order.end(); ++last) {
          std::reverse(first, last);
          const double changed = CostOf(order);
          if (changed < cost * (1 - 1e-9)) {
            cost = changed;
            better = true;
          } else {
            std::reverse(first, last);
          }
          if (last == order.end()) {
            break;
          }
        }
      }
    }
    return order;
  }

  const LinkMatrix& links_;
  const std::vector<Grouping>& levels_;
  double border_ = 0;
  std::vector<std::vector<std::size_t>> by_distance_;
  Order best_;
  double best_cost_ = std::numeric_limits<double>::infinity();
};

// Brings what belongs together together, in the order of first appearance. A search that found the
// best ring has left nothing to do here.
Order Gathered(const Order& order, const std::vector<Grouping>& levels) {
  Order gathered = order;
  for (const Grouping& level : levels) {  // innermost first, so that the outer ones have the say
    std::vector<std::size_t> place(gathered.size(), gathered.size());
    for (std::size_t i = 0; i < gathered.size(); ++i) {
      std::size_t& first = place[level[gathered[i]]];
      first = std::min(first, i);
    }
    std::stable_sort(gathered.begin(), gathered.end(), [&](std::size_t a, std::size_t b) {
      return place[level[a]] < place[level[b]];
    });
  }
  return gathered;
}

// Begins with node 0, or where its outermost group does.
Order Turned(Order order, const std::vector<Grouping>& levels) {
  if (order.size() > 2 && order[1] > order.back()) {
    std::reverse(order.begin() + 1, order.end());
  }
  const auto in_front = [&](std::size_t node) {
    return levels.empty() ? node == 0 : levels.back()[node] == levels.back()[0];
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t before = order[(i + order.size() - 1) % order.size()];
    if (in_front(order[i]) && !in_front(before)) {
      std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(i), order.end());
      break;
    }
  }
  return order;
}

}  // namespace

double LinkSeconds(const collective::LinkModel& link) {
  return link.latency_seconds + link.message_seconds + kSliceBytes / link.bytes_per_second;
}

double LapSeconds(const LinkMatrix& links, const Order& order) {
  double seconds = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    seconds += LinkSeconds(links.at(order[i], order[(i + 1) % order.size()]));
  }
  return seconds;
}

Order BestRing(const LinkMatrix& links, const std::vector<Grouping>& levels) {
  if (links.size() < 2) {
    Order order(links.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    return order;
  }
  return Gathered(Turned(Search(links, levels).Best(), levels), levels);
}

}  // namespace maypole::server
