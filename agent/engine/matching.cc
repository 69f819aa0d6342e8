#include "agent/engine/matching.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

#include "collective/parts.h"
#include "common/fnv.h"

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
    const std::function<std::string(const Announce&, const AnnounceGroup&)>& value_of) {
  std::map<std::string, std::vector<Rank>> groups;
  for (const auto& announce : announces) {
    if (!announce) {
      continue;
    }
    for (const AnnounceGroup& group : announce->groups) {
      auto& ranks = groups[value_of(*announce, group)];
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

// The ranks outside the largest group that agrees on everything; none if two groups are largest.
std::vector<Rank> Minority(std::span<const std::optional<Announce>> announces) {
  struct Agreed {
    std::string_view name;
    OpShape shape;
    std::vector<Rank> ranks;
  };

  std::vector<Agreed> groups;
  for (const auto& announce : announces) {
    if (!announce) {
      continue;
    }
    for (const AnnounceGroup& group : announce->groups) {
      auto same = std::find_if(groups.begin(), groups.end(), [&](const Agreed& known) {
        return known.name == announce->name && known.shape == group.shape;
      });
      if (same == groups.end()) {
        same = groups.insert(same, {announce->name, group.shape, {}});
      }
      same->ranks.insert(same->ranks.end(), group.ranks.begin(), group.ranks.end());
    }
  }
  std::sort(groups.begin(), groups.end(), [](const Agreed& a, const Agreed& b) {
    return a.ranks.size() > b.ranks.size();
  });
  std::vector<Rank> minority;
  if (groups.size() > 1 && groups[0].ranks.size() > groups[1].ranks.size()) {
    for (std::size_t i = 1; i < groups.size(); ++i) {
      minority.insert(minority.end(), groups[i].ranks.begin(), groups[i].ranks.end());
    }
  }
  return minority;
}

// Equal blocks are the same whether they were counted or not.
std::uint64_t HashCounts(const std::vector<ElementCount>& counts) {
  const bool equal =
      std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
  return equal ? 0 : std::max<std::uint64_t>(1, Fnv1aOf(counts));
}

// The first block in which two groups differ.
struct DifferentBlock {
  std::size_t index = 0;
  std::uint64_t ranks = 0;  // in all: so many blocks
};

ElementCount SizeOfBlock(const AnnounceGroup& group, const DifferentBlock& block) {
  return group.shape.counts == 0 ? group.shape.elements / block.ranks : group.blocks[block.index];
}

// Empty if all blocks are equal, or none that was told differs.
std::optional<DifferentBlock> FirstDifferentBlock(
    std::span<const std::optional<Announce>> announces) {
  std::vector<const AnnounceGroup*> groups;
  DifferentBlock block;
  std::optional<std::size_t> told;
  for (const auto& announce : announces) {
    if (!announce) {
      continue;
    }
    for (const AnnounceGroup& group : announce->groups) {
      groups.push_back(&group);
      block.ranks += group.ranks.size();
      if (group.shape.counts != 0) {
        told = std::min(told.value_or(kAnnounceBlocksMax), group.blocks.size());
      }
    }
  }
  for (; block.index < told.value_or(0); ++block.index) {
    const ElementCount first = SizeOfBlock(*groups.front(), block);
    if (std::any_of(groups.begin(), groups.end(), [&](const AnnounceGroup* group) {
          return SizeOfBlock(*group, block) != first;
        })) {
      return block;
    }
  }
  return std::nullopt;
}

std::string DescribeBlocks(const AnnounceGroup& group,
                           const std::optional<DifferentBlock>& different) {
  if (different) {
    return std::to_string(SizeOfBlock(group, *different)) + " for rank " +
           std::to_string(different->index);
  }
  if (group.shape.counts == 0) {
    return "equal blocks";
  }
  char text[32];
  std::snprintf(text,
                sizeof(text),
                "counts %016llx (hash)",
                static_cast<unsigned long long>(group.shape.counts));
  return text;
}

}  // namespace

std::uint64_t HashName(std::string_view name) {
  return Fnv1a(name) & ~kPairBit;
}

std::uint64_t HashOf(const Submission& submission) {
  if (submission.collective != collective::Collective::kSendReceive) {
    return HashName(submission.name);
  }
  const std::uint32_t pair[] = {submission.root.value(), submission.peer.value()};
  return Fnv1aOf(pair, Fnv1a(submission.name)) | kPairBit;
}

Outcome CheckRanks(const Submission& submission, Rank self, std::uint32_t world_size) {
  const auto refuse = [&](const std::string& why) {
    return Outcome{
        ErrorCode::kInvalidArgument, std::string(Name(submission.collective)) + ": " + why, {}};
  };
  const auto other = [&](const char* what, Rank rank) {
    return refuse(std::string(what) + " " + std::to_string(rank.value()) +
                  " is no rank of this job; ranks are 0 to " + std::to_string(world_size - 1));
  };
  if (HasRoot(submission.collective) && submission.root.value() >= world_size) {
    return other("rank", submission.root);
  }
  if (submission.collective == collective::Collective::kSendReceive) {
    if (submission.peer.value() >= world_size) {
      return other("rank", submission.peer);
    }
    if (submission.root == submission.peer ||
        (submission.root != self && submission.peer != self)) {
      return refuse("from rank " + std::to_string(submission.root.value()) + " to rank " +
                    std::to_string(submission.peer.value()) + " cannot be asked for by rank " +
                    std::to_string(self.value()) + ", which must be one of two different ranks");
    }
  }
  if (!submission.counts.empty() && submission.counts.size() != world_size) {
    return refuse(std::to_string(submission.counts.size()) + " counts were given for " +
                  std::to_string(world_size) + " ranks; there must be one for each");
  }
  if (HasBlocks(submission.collective) && submission.counts.empty() &&
      submission.elements % world_size != 0) {
    return refuse("element count " + std::to_string(submission.elements) +
                  " is not a multiple of the world size " + std::to_string(world_size) +
                  (HasCounts(submission.collective) ? "; give counts for uneven blocks" : ""));
  }
  return {};
}

OpShape ShapeOf(const Submission& submission) {
  return {.collective = static_cast<std::uint8_t>(submission.collective),
          .dtype = submission.dtype,
          .reduction = Sums(submission.collective) ? submission.reduction : Reduction::kSum,
          .algorithm = static_cast<std::uint8_t>(submission.algorithm),
          .root = submission.root.value(),
          .peer = submission.peer.value(),
          .elements = submission.elements,
          .counts = HashCounts(submission.counts)};
}

AnnounceGroup GroupOf(const Submission& submission) {
  AnnounceGroup group{.shape = ShapeOf(submission), .ranks = {}};
  if (group.shape.counts != 0) {
    group.blocks = submission.counts;
    group.blocks.resize(std::min(group.blocks.size(), kAnnounceBlocksMax));
  }
  return group;
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
  const Announce& first = **std::find_if(announces.begin(),
                                         announces.end(),
                                         [](const auto& announce) { return announce.has_value(); });
  const auto agrees = [&](const std::optional<Announce>& announce) {
    return !announce ||
           (announce->name == first.name &&
            std::all_of(
                announce->groups.begin(), announce->groups.end(), [&](const AnnounceGroup& group) {
                  return group.shape == first.groups.front().shape;
                }));
  };
  if (std::all_of(announces.begin(), announces.end(), agrees)) {
    return std::nullopt;
  }
  const std::optional<DifferentBlock> block = FirstDifferentBlock(announces);
  const std::string fields[] = {
      DescribeField("name",
                    announces,
                    [](const Announce& a, const AnnounceGroup&) { return '"' + a.name + '"'; }),
      DescribeField("collective",
                    announces,
                    [](const Announce&, const AnnounceGroup& g) {
                      return std::string(
                          Name(static_cast<collective::Collective>(g.shape.collective)));
                    }),
      DescribeField(
          "dtype",
          announces,
          [](const Announce&, const AnnounceGroup& g) { return std::string(Name(g.shape.dtype)); }),
      DescribeField(
          "count",
          announces,
          [](const Announce&, const AnnounceGroup& g) { return std::to_string(g.shape.elements); }),
      DescribeField("reduction",
                    announces,
                    [](const Announce&, const AnnounceGroup& g) {
                      return std::string(Name(g.shape.reduction));
                    }),
      DescribeField(
          "root",
          announces,
          [](const Announce&, const AnnounceGroup& g) { return std::to_string(g.shape.root); }),
      DescribeField(
          "blocks",
          announces,
          [&](const Announce&, const AnnounceGroup& g) { return DescribeBlocks(g, block); }),
      DescribeField("algorithm",
                    announces,
                    [](const Announce&, const AnnounceGroup& g) {
                      return std::string(
                          Name(static_cast<collective::Algorithm>(g.shape.algorithm)));
                    }),
  };
  std::string differences;
  for (const std::string& field : fields) {
    if (!field.empty()) {
      differences += (differences.empty() ? "" : "; ") + field;
    }
  }
  const OpShape& shape = first.groups.front().shape;
  const std::vector<Rank> minority = Minority(announces);
  return Outcome{.code = ErrorCode::kMismatch,
                 .text = Describe(shape.collective, first.name, occurrence) +
                         " was refused before any byte moved: the ranks disagree on " + differences,
                 .culprits = minority.empty() ? std::string() : ListRanks(minority)};
}

}  // namespace maypole::agent
