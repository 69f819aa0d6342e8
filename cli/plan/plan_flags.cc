#include "cli/plan/plan_flags.h"

#include <chrono>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

#include "common/dtype.h"
#include "daemon/parse.h"

namespace maypole::cli {
namespace {

constexpr double kIndexBytes = 4;  // of an element that top-k sends
constexpr std::size_t kPointsMost = 100;

absl::Status Refused(const std::string& option,
                     const std::string& value,
                     const std::string& allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", option, " is \"", value, "\"; it must be ", allowed));
}

// Reads flags into a request; the first refusal is kept, as the others may follow from it.
class Reader {
 public:
  template <typename Value>
  Value Read(const std::string& option, absl::StatusOr<Value> value) {
    if (!value.ok()) {
      if (status_.ok()) {
        status_ = absl::InvalidArgumentError(
            absl::StrCat("--", option, ": ", std::string(value.status().message())));
      }
      return Value{};
    }
    return *value;
  }

  double Seconds(const std::string& option, const std::string& text) {
    return std::chrono::duration<double>(Read(option, daemon::ParseDuration(text))).count();
  }

  double BytesPerSecond(const std::string& option, const std::string& text) {
    return static_cast<double>(Read(option, daemon::ParseBitRate(text))) / 8;
  }

  std::uint64_t Bytes(const std::string& option, const std::string& text) {
    return Read(option, daemon::ParseBytes(text));
  }

  template <typename Value>
  Value Take(absl::StatusOr<Value> value) {
    if (!value.ok() && status_.ok()) {
      status_ = value.status();
    }
    return value.ok() ? *value : Value{};
  }

  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

absl::StatusOr<DType> DTypeOf(const std::string& name) {
  const auto dtype = DTypeFromName(name);
  return dtype ? absl::StatusOr<DType>(*dtype)
               : Refused("dtype", name, "f32, f64, f16, bf16, i8, u8, i32 or i64");
}

absl::StatusOr<std::uint64_t> GradientBytes(const PlanFlags& flags, DType dtype) {
  if (flags.bytes.empty() == (flags.params == 0)) {
    return absl::InvalidArgumentError(
        "give the gradient's size either as --bytes 1GiB or as --params 7e9 --dtype bf16");
  }
  if (flags.bytes.empty()) {
    if (!(flags.params >= 1 && flags.params <= 1e15)) {
      return Refused("params", absl::StrCat(flags.params), "from 1 to 1e15");
    }
    return static_cast<std::uint64_t>(flags.params) * SizeOf(dtype);
  }
  Reader reader;
  const std::uint64_t bytes = reader.Bytes("bytes", flags.bytes);
  return reader.status().ok() ? absl::StatusOr<std::uint64_t>(bytes) : reader.status();
}

// Bytes on the wire per byte of gradient.
absl::StatusOr<double> WireRatio(const std::string& compression, DType dtype) {
  const std::pair<const char*, double> codecs[] = {
      {"f16", 2}, {"bf16", 2}, {"int8", 1}, {"int4", 0.5}};
  const auto size = static_cast<double>(SizeOf(dtype));
  if (compression == "none") {
    return 1.0;
  }
  for (const auto& [name, bytes] : codecs) {
    if (compression == name) {
      return bytes / size;
    }
  }
  double kept = 0;
  if (absl::StartsWith(compression, "topk:") && absl::SimpleAtod(compression.substr(5), &kept) &&
      kept > 0 && kept <= 1) {
    return kept * (size + kIndexBytes) / size;
  }
  return Refused("compression",
                 compression,
                 "none, f16, bf16, int8, int4 or topk:RATIO with a ratio in (0, 1]");
}

absl::StatusOr<collective::Algorithm> AlgorithmOf(const std::string& name) {
  if (name == "auto") {
    return collective::Algorithm::kAuto;
  }
  std::string names;
  for (const collective::Algorithm algorithm : collective::kAlgorithms) {
    const std::string known(Name(algorithm));
    if (name == known) {
      return algorithm;
    }
    absl::StrAppend(&names, ", ", known);
  }
  return Refused("algorithm", name, absl::StrCat("one of auto", names));
}

collective::LinkModel LinkOf(const PlanFlags& flags, Reader& reader) {
  collective::LinkModel link = {
      .latency_seconds = reader.Seconds("latency", flags.latency),
      .bytes_per_second = reader.BytesPerSecond("bandwidth", flags.bandwidth),
      .message_seconds = reader.Seconds("message", flags.message),
      .rails = flags.rails,
      .slowest = flags.slowest};
  if (flags.nodes_per_rack != 0 || !flags.uplink.empty()) {
    link.uplink = {.members = flags.nodes_per_rack,
                   .bytes_per_second = reader.BytesPerSecond("uplink", flags.uplink),
                   .latency_seconds = reader.Seconds("uplink-latency", flags.uplink_latency)};
    if (flags.nodes_per_rack == 0) {
      reader.Take(absl::StatusOr<int>(
          Refused("nodes-per-rack", "0", "at least 1 where racks share an uplink")));
    }
  }
  return link;
}

}  // namespace

absl::StatusOr<collective::PlanRequest> RequestOf(const PlanFlags& flags) {
  Reader reader;
  const DType dtype = reader.Take(DTypeOf(flags.dtype));
  collective::PlanRequest request;
  request.bytes = reader.Take(GradientBytes(flags, dtype));
  request.ranks = flags.ranks;
  request.ranks_per_node = flags.ranks_per_node;
  request.link = LinkOf(flags, reader);
  if (!flags.inner_bandwidth.empty()) {
    request.inner = {
        .latency_seconds = reader.Seconds("inner-latency", flags.inner_latency),
        .bytes_per_second = reader.BytesPerSecond("inner-bandwidth", flags.inner_bandwidth)};
  }
  request.bytes_on_wire = reader.Take(WireRatio(flags.compression, dtype));
  request.bucket_bytes = reader.Bytes("bucket", flags.bucket);
  request.slice_bytes = reader.Bytes("slice", flags.slice);
  request.algorithm = reader.Take(AlgorithmOf(flags.algorithm));
  request.simulate = flags.simulate;
  if (!flags.compute.empty()) {
    request.compute_seconds = reader.Seconds("compute", flags.compute);
  }
  if (!reader.status().ok()) {
    return reader.status();
  }
  if (const std::string problem = PlanProblem(request); !problem.empty()) {
    return absl::InvalidArgumentError(problem);
  }
  return request;
}

namespace {

// The numbers of "8..1024", doubling, or of "8,64".
absl::StatusOr<std::vector<std::uint64_t>> Values(
    const std::string& text, absl::StatusOr<std::uint64_t> (*parse)(std::string_view)) {
  std::vector<std::uint64_t> values;
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      const auto value = parse(std::string(part));
      if (!value.ok()) {
        return value.status();
      }
      values.push_back(*value);
    }
    return values;
  }
  const auto first = parse(text.substr(0, dots));
  const auto last = parse(text.substr(dots + 2));
  if (!first.ok() || !last.ok()) {
    return first.ok() ? last.status() : first.status();
  }
  if (*first == 0 || *first > *last) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not an ascending range from more than 0"));
  }
  for (std::uint64_t value = *first; value < *last; value *= 2) {
    values.push_back(value);
  }
  values.push_back(*last);
  return values;
}

absl::StatusOr<std::uint64_t> ParseRanks(std::string_view text) {
  const auto ranks = daemon::ParseInteger(text, 1, 1 << 24);
  return ranks.ok() ? absl::StatusOr<std::uint64_t>(static_cast<std::uint64_t>(*ranks))
                    : ranks.status();
}

std::string RateText(std::uint64_t bits_per_second) {
  return absl::StrFormat("%.10gGbit", static_cast<double>(bits_per_second) / 1e9);
}

}  // namespace

absl::StatusOr<Sweep> SweepOf(const PlanFlags& flags) {
  const std::vector<std::string> parts = absl::StrSplit(flags.sweep, absl::MaxSplits('=', 1));
  const std::string& option = parts.front();
  if (parts.size() != 2 || (option != "ranks" && option != "bytes" && option != "bandwidth")) {
    return Refused("sweep",
                   flags.sweep,
                   "ranks=8..1024, bytes=1MiB..1GiB, bandwidth=10Gbps..400Gbps, or a list such as "
                   "ranks=8,64");
  }
  Reader reader;
  const auto values = reader.Read("sweep",
                                  Values(parts[1],
                                         option == "ranks"   ? &ParseRanks
                                         : option == "bytes" ? &daemon::ParseBytes
                                                             : &daemon::ParseBitRate));
  if (!reader.status().ok()) {
    return reader.status();
  }
  if (values.size() > kPointsMost) {
    return Refused("sweep", flags.sweep, absl::StrCat("at most ", kPointsMost, " values"));
  }
  Sweep sweep = {option, {}};
  for (const std::uint64_t value : values) {
    PlanFlags one = flags;
    SweepPoint point = {.x = static_cast<double>(value)};
    if (option == "ranks") {
      one.ranks = static_cast<std::uint32_t>(value);
      point.value = absl::StrCat(value);
    } else if (option == "bytes") {
      one.bytes = point.value = daemon::FormatBytes(value);
      one.params = 0;
    } else {
      one.bandwidth = point.value = RateText(value);
    }
    const auto request = RequestOf(one);
    if (!request.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--sweep at ", point.value, ": ", std::string(request.status().message())));
    }
    point.request = *request;
    sweep.points.push_back(std::move(point));
  }
  return sweep;
}

}  // namespace maypole::cli
