#include "server/rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "collective/parts.h"
#include "collective/select.h"
#include "daemon/parse.h"
#include "proto/text.h"

#include <toml++/toml.h>

namespace maypole::server {
namespace {

using collective::TuningRule;

constexpr std::array<std::string_view, 5> kKeys = {
    "collective", "from", "below", "algorithm", "slice"};
constexpr std::array<std::string_view, 10> kUnits = {
    "B", "kB", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"};

// One rule of the file, and what is said about it.
class Rule {
 public:
  Rule(const toml::table& table, const std::string& name) : table_(table), name_(name) {}

  absl::StatusOr<TuningRule> Read() const;

 private:
  absl::Status Invalid(const toml::node& at, const std::string& what) const {
    return absl::InvalidArgumentError(name_ + ", line " + std::to_string(at.source().begin.line) +
                                      ": " + what);
  }

  // The text of a key; empty if it is absent.
  absl::StatusOr<std::string> TextOf(std::string_view key) const;
  absl::StatusOr<std::uint64_t> SizeOf(std::string_view key, std::uint64_t otherwise) const;
  absl::Status RefuseUnknownKeys() const;

  const toml::table& table_;
  const std::string& name_;
};

template <typename Values>
std::string NamesOf(const Values& values) {
  std::string names;
  for (const auto value : values) {
    names += (names.empty() ? "" : ", ") + std::string(Name(value));
  }
  return names;
}

// Those that send something.
std::string CollectiveNames() {
  std::vector<collective::Collective> all;
  for (std::size_t number = 0; number < collective::kCollectiveCount; ++number) {
    if (const auto one = static_cast<collective::Collective>(number);
        one != collective::Collective::kBarrier) {
      all.push_back(one);
    }
  }
  return NamesOf(all);
}

std::string AlgorithmNames(collective::Collective collective) {
  std::vector<collective::Algorithm> available;
  for (const collective::Algorithm algorithm : collective::kAlgorithms) {
    if (collective::IsAvailable(collective, algorithm)) {
      available.push_back(algorithm);
    }
  }
  return NamesOf(available);
}

std::string Fault(const std::string& key, const std::string& value, const std::string& place) {
  return value.empty() ? key + " is missing; one of "
                       : key + " = \"" + value + "\" does not exist" + place + "; one of ";
}

bool HasUnit(std::string_view text) {
  std::size_t digits = 0;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) != 0 || text[digits] == '.')) {
    ++digits;
  }
  const std::string_view unit = text.substr(digits);
  return digits > 0 && std::find(kUnits.begin(), kUnits.end(), unit) != kUnits.end();
}

absl::StatusOr<std::string> Rule::TextOf(std::string_view key) const {
  const toml::node* value = table_.get(key);
  if (value == nullptr) {
    return std::string();
  }
  if (!value->is_string()) {
    return Invalid(*value,
                   "the value of " + std::string(key) +
                       " is no text; write it in quotes, as in algorithm = \"ring\" or from = "
                       "\"64KiB\"");
  }
  std::string text = value->ref<std::string>();
  if (!IsPrintableUtf8(text)) {
    return Invalid(*value, "the value of " + std::string(key) + " is not printable");
  }
  return text;
}

absl::StatusOr<std::uint64_t> Rule::SizeOf(std::string_view key, std::uint64_t otherwise) const {
  absl::StatusOr<std::string> text = TextOf(key);
  if (!text.ok() || table_.get(key) == nullptr) {
    return text.ok() ? absl::StatusOr<std::uint64_t>(otherwise) : text.status();
  }
  absl::StatusOr<std::uint64_t> bytes =
      HasUnit(*text) ? daemon::ParseBytes(*text) : absl::InvalidArgumentError("");
  if (!bytes.ok()) {
    return Invalid(*table_.get(key),
                   std::string(key) + " = \"" + *text +
                       "\" is no size: a number with a unit, one of B, kB, MB, GB, TB (by 1000), "
                       "KiB, MiB, GiB, TiB (by 1024), as in 64KiB; a b means bits");
  }
  return bytes;
}

absl::Status Rule::RefuseUnknownKeys() const {
  for (const auto& [key, value] : table_) {
    if (std::find(kKeys.begin(), kKeys.end(), key.str()) == kKeys.end()) {
      return Invalid(value,
                     "there is no key \"" + std::string(key.str()) +
                         "\"; a rule has collective, from, below, algorithm and slice");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TuningRule> Rule::Read() const {
  if (absl::Status status = RefuseUnknownKeys(); !status.ok()) {
    return status;
  }
  const absl::StatusOr<std::string> collective_name = TextOf("collective");
  const absl::StatusOr<std::string> algorithm_name = TextOf("algorithm");
  const absl::StatusOr<std::uint64_t> from = SizeOf("from", 0);
  const absl::StatusOr<std::uint64_t> below = SizeOf("below", collective::kNoLimit);
  const absl::StatusOr<std::uint64_t> slice = SizeOf("slice", 0);
  for (const absl::Status& status : {collective_name.status(),
                                     algorithm_name.status(),
                                     from.status(),
                                     below.status(),
                                     slice.status()}) {
    if (!status.ok()) {
      return status;
    }
  }
  const toml::node* at = table_.get("collective");
  const auto collective = collective::CollectiveFromName(*collective_name);
  if (!collective || *collective == collective::Collective::kBarrier) {
    return Invalid(at == nullptr ? table_ : *at,
                   Fault("collective", *collective_name, "") + CollectiveNames());
  }
  at = table_.get("algorithm");
  const auto algorithm = collective::AlgorithmFromName(*algorithm_name);
  if (!algorithm || !collective::IsAvailable(*collective, *algorithm)) {
    return Invalid(at == nullptr ? table_ : *at,
                   Fault("algorithm", *algorithm_name, " for " + *collective_name) +
                       AlgorithmNames(*collective));
  }
  if (*from >= *below) {
    return Invalid(*table_.get("below"),
                   "the range from " + daemon::FormatBytes(*from) + " below " +
                       daemon::FormatBytes(*below) + " is empty; from must be less than below");
  }
  if (*slice != 0 && (*slice < collective::kSliceBytesMin || *slice > collective::kSliceBytesMax)) {
    return Invalid(*table_.get("slice"),
                   "slice = \"" + daemon::FormatBytes(*slice) + "\" is not allowed; 4KiB to 64MiB");
  }
  return TuningRule{.collective = *collective,
                    .bytes_begin = *from,
                    .bytes_end = *below,
                    .algorithm = *algorithm,
                    .slice_bytes = *slice,
                    .origin = name_ + ", line " + std::to_string(table_.source().begin.line)};
}

absl::Status RefuseOverlaps(const std::vector<TuningRule>& rules) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const TuningRule& a = rules[j];
      const TuningRule& b = rules[i];
      if (a.collective == b.collective && a.bytes_begin < b.bytes_end &&
          b.bytes_begin < a.bytes_end) {
        return absl::InvalidArgumentError(
            b.origin + ": the range from " + daemon::FormatBytes(b.bytes_begin) + " overlaps the " +
            std::string(Name(a.collective)) + " rule of " + a.origin + ", which begins at " +
            daemon::FormatBytes(a.bytes_begin) + " and ends " +
            (a.bytes_end == collective::kNoLimit ? "nowhere"
                                                 : "below " + daemon::FormatBytes(a.bytes_end)) +
            "; each size may have one rule");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TuningRule>> ParseRules(const std::string& text,
                                                   const std::string& name) {
  toml::table file;
  try {
    file = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(name + ", line " + std::to_string(error.source().begin.line) +
                                      ": no TOML: " + std::string(error.description()));
  }
  std::vector<TuningRule> rules;
  for (const auto& [key, value] : file) {
    const toml::array* array = value.as_array();
    if (key.str() != "rule" || array == nullptr || !array->is_homogeneous<toml::table>()) {
      return absl::InvalidArgumentError(
          name + ", line " + std::to_string(value.source().begin.line) + ": \"" +
          std::string(key.str()) + "\" is no rule; the file is a list of [[rule]] sections");
    }
    for (const toml::node& node : *array) {
      absl::StatusOr<TuningRule> rule = Rule(*node.as_table(), name).Read();
      if (!rule.ok()) {
        return rule.status();
      }
      rules.push_back(*std::move(rule));
    }
  }
  if (rules.size() > kRulesMax) {
    return absl::InvalidArgumentError(name + ": " + std::to_string(rules.size()) +
                                      " rules are more than the " + std::to_string(kRulesMax) +
                                      " that a table has room for");
  }
  if (absl::Status status = RefuseOverlaps(rules); !status.ok()) {
    return status;
  }
  return rules;
}

absl::StatusOr<std::vector<TuningRule>> ReadRules(const std::string& path) {
  std::ifstream file(path);
  std::error_code ignored;
  if (!file || std::filesystem::is_directory(path, ignored)) {
    return absl::NotFoundError("cannot read \"" + path + "\", or it is not a file");
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return ParseRules(text, path);
}

}  // namespace maypole::server
