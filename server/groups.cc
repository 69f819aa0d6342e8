#include "server/groups.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>

namespace maypole::server {
namespace {

std::uint32_t CountOf(const Grouping& grouping) {
  return *std::max_element(grouping.begin(), grouping.end()) + 1;
}

// Numbers the groups in the order of their first nodes.
template <typename Key>
Grouping Numbered(const std::vector<Key>& keys) {
  std::map<Key, std::uint32_t> numbers;
  Grouping grouping;
  for (const Key& key : keys) {
    grouping.push_back(
        numbers.emplace(key, static_cast<std::uint32_t>(numbers.size())).first->second);
  }
  return grouping;
}

void AddLevel(Grouping grouping, Groups& groups) {
  const std::uint32_t count = CountOf(grouping);
  const bool is_new = groups.levels.empty() || count < CountOf(groups.levels.back());
  if (is_new && count > 1 && count < grouping.size()) {
    groups.levels.push_back(std::move(grouping));
  }
}

struct Edge {
  double seconds;
  std::size_t a;
  std::size_t b;
};

std::size_t RootOf(std::vector<std::size_t>& parent, std::size_t node) {
  while (parent[node] != node) {
    node = parent[node] = parent[parent[node]];
  }
  return node;
}

Grouping Joined(std::vector<std::size_t>& parent) {
  std::vector<std::size_t> roots;
  for (std::size_t node = 0; node < parent.size(); ++node) {
    roots.push_back(RootOf(parent, node));
  }
  return Numbered(roots);
}

std::string Times(double factor) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", factor);
  return text;
}

}  // namespace

Groups GroupsByLabels(const std::vector<Labels>& labels) {
  Groups groups;
  if (labels.empty() || labels.front().empty()) {
    return groups;
  }
  const Labels& first = labels.front();
  for (const Labels& of_node : labels) {
    const bool same_keys = std::equal(
        of_node.begin(), of_node.end(), first.begin(), first.end(), [](auto& a, auto& b) {
          return a.first == b.first;
        });
    if (!same_keys) {
      return groups;
    }
  }
  for (std::size_t depth = first.size(); depth > 0; --depth) {
    std::vector<Labels> keys;
    for (const Labels& of_node : labels) {
      keys.emplace_back(of_node.begin(), of_node.begin() + static_cast<std::ptrdiff_t>(depth));
    }
    AddLevel(Numbered(keys), groups);
  }
  if (!groups.levels.empty()) {
    groups.reason = "groups by the agents' labels:";
    for (const auto& [key, value] : first) {
      groups.reason += " " + key;
    }
  }
  return groups;
}

Groups GroupsByCost(const LinkMatrix& links) {
  std::vector<Edge> edges;
  for (std::size_t a = 0; a < links.size(); ++a) {
    for (std::size_t b = a + 1; b < links.size(); ++b) {
      edges.push_back({LinkSeconds(links.at(a, b)), a, b});
    }
  }
  std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return a.seconds < b.seconds;
  });
  std::vector<std::size_t> parent(links.size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  Groups groups;
  double last = 0;
  for (const Edge& edge : edges) {
    const std::size_t a = RootOf(parent, edge.a);
    const std::size_t b = RootOf(parent, edge.b);
    if (a == b) {
      continue;
    }
    if (last > 0 && edge.seconds >= kGap * last) {
      const std::size_t before = groups.levels.size();
      AddLevel(Joined(parent), groups);
      if (groups.levels.size() > before) {
        groups.reason = "groups by measured cost: the next link outside costs " +
                        Times(edge.seconds / last) + " times as much as the dearest inside";
      }
    }
    parent[a] = b;
    last = edge.seconds;
  }
  return groups;
}

}  // namespace maypole::server
