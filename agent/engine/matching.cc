#include "agent/engine/matching.h"

#include <algorithm>
#include <functional>
#include <map>

#include "collective/schedule.h"

namespace maypole::agent {
namespace {

std::vector<std::uint32_t> Sorted(const std::vector<Rank>& ranks) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(ranks.size());
  for (const Rank rank : ranks) {
    numbers.push_back(rank.value());
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// The groups of ranks by the value of one field, in order of their lowest rank; "" if all agree.
std::string DescribeField(
    std::string_view field,
    std::span<const std::optional<Announce>> announces,
    const std::function<std::string(const Announce&, const OpShape&)>& value_of) {
  std::map<std::string, std::vector<Rank>> groups;
  for (const auto& announce : announces) {
    for (const AnnounceGroup& group : announce->groups) {
      auto& ranks = groups[value_of(*announce, group.shape)];
      ranks.insert(ranks.end(), group.ranks.begin(), group.ranks.end());
    }
  }
  if (groups.size() < 2) {
    return {};
  }
  std::vector<std::pair<std::string, std::vector<Rank>>> ordered(groups.begin(), groups.end());
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return *std::min_element(a.second.begin(), a.second.end()) <
           *std::min_element(b.second.begin(), b.second.end());
  });
  std::string text = std::string(field) + ": ";
  for (const auto& [value, ranks] : ordered) {
    text += (text.back() == ' ' ? "" : ", ") + FormatRanks(ranks) +
            (ranks.size() == 1 ? " has " : " have ") + value;
  }
  return text;
}

}  // namespace

std::uint64_t HashName(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
  }
  return hash;
}

OpShape ShapeOf(const Submission& submission) {
  return {.collective = static_cast<std::uint8_t>(submission.collective),
          .dtype = submission.dtype,
          .reduction = submission.reduction,
          .algorithm = static_cast<std::uint8_t>(submission.algorithm),
          .elements = submission.elements};
}

std::string Describe(std::uint8_t collective, std::string_view name, std::uint64_t occurrence) {
  std::string text(Name(static_cast<collective::Collective>(collective)));
  text += name.empty() ? std::string(" (unnamed)") : " \"" + std::string(name) + '"';
  return text + " #" + std::to_string(occurrence);
}

std::string FormatRanks(std::vector<Rank> ranks) {
  const auto numbers = Sorted(ranks);
  std::string text = numbers.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) {
      ++last;
    }
    text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
    if (last > i) {
      text += (last == i + 1 ? ", " : "-") + std::to_string(numbers[last]);
    }
    i = last + 1;
  }
  return text;
}

std::string ListRanks(std::vector<Rank> ranks) {
  std::vector<std::uint32_t> numbers = Sorted(ranks);
  numbers.resize(std::min(numbers.size(), kListedRanksMax));
  std::string text;
  for (const std::uint32_t rank : numbers) {
    text += (text.empty() ? "" : ",") + std::to_string(rank);
  }
  return "ranks=" + text;
}

std::optional<Outcome> FindMismatch(std::uint64_t occurrence,
                                    std::span<const std::optional<Announce>> announces) {
  const Announce& first = *announces.front();
  const auto agrees = [&](const std::optional<Announce>& announce) {
    return announce->name == first.name &&
           std::all_of(
               announce->groups.begin(), announce->groups.end(), [&](const AnnounceGroup& group) {
                 return group.shape == first.groups.front().shape;
               });
  };
  if (std::all_of(announces.begin(), announces.end(), agrees)) {
    return std::nullopt;
  }
  const std::string fields[] = {
      DescribeField(
          "name", announces, [](const Announce& a, const OpShape&) { return '"' + a.name + '"'; }),
      DescribeField("collective",
                    announces,
                    [](const Announce&, const OpShape& s) {
                      return std::string(Name(static_cast<collective::Collective>(s.collective)));
                    }),
      DescribeField("dtype",
                    announces,
                    [](const Announce&, const OpShape& s) { return std::string(Name(s.dtype)); }),
      DescribeField("count",
                    announces,
                    [](const Announce&, const OpShape& s) { return std::to_string(s.elements); }),
      DescribeField(
          "reduction",
          announces,
          [](const Announce&, const OpShape& s) { return std::string(Name(s.reduction)); }),
      DescribeField("algorithm",
                    announces,
                    [](const Announce&, const OpShape& s) {
                      return std::string(Name(static_cast<collective::Algorithm>(s.algorithm)));
                    }),
  };
  std::string differences;
  for (const std::string& field : fields) {
    if (!field.empty()) {
      differences += (differences.empty() ? "" : "; ") + field;
    }
  }
  const OpShape& shape = first.groups.front().shape;
  return Outcome{.code = ErrorCode::kMismatch,
                 .text = Describe(shape.collective, first.name, occurrence) +
                         " was refused before any byte moved: the ranks disagree on " + differences,
                 .culprits = {}};
}

}  // namespace maypole::agent
