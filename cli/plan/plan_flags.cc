#include "cli/plan/plan_flags.h"

#include <chrono>
#include <cmath>
#include <utility>

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include "cli/algorithm_flag.h"
#include "common/dtype.h"
#include "daemon/parse.h"

namespace maypole::cli {
namespace {

constexpr double kLatencySeconds = 5e-6;
constexpr double kIndexBytes = 4;  // of an element that top-k sends

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
    if (text.empty()) {
      return Take(absl::StatusOr<double>(
          absl::InvalidArgumentError(absl::StrCat("give --", option, " 25Gbps"))));
    }
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

// "7e9", "7B", "350M"; within what a gradient may have.
absl::StatusOr<double> ParametersOf(const std::string& text) {
  const std::pair<char, double> suffixes[] = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}};
  std::string number = text;
  double factor = 1;
  for (const auto& [suffix, times] : suffixes) {
    if (absl::ascii_toupper(static_cast<unsigned char>(text.back())) == suffix) {
      number.pop_back();
      factor = times;
    }
  }
  double parameters = 0;
  if (!absl::SimpleAtod(number, &parameters) ||
      !(parameters * factor >= 1 && parameters * factor <= 1e15)) {
    return Refused("params", text, "from 1 to 1e15, such as 7e9, 7B or 350M");
  }
  return std::round(parameters * factor);
}

absl::StatusOr<std::uint64_t> GradientBytes(const PlanFlags& flags, DType dtype) {
  if (flags.bytes.empty() == flags.params.empty()) {
    return absl::InvalidArgumentError(
        "give the gradient's size either as --bytes 1GiB or as --params 7e9 --dtype bf16");
  }
  if (flags.bytes.empty()) {
    const absl::StatusOr<double> parameters = ParametersOf(flags.params);
    return parameters.ok() ? absl::StatusOr<std::uint64_t>(static_cast<std::uint64_t>(*parameters) *
                                                           SizeOf(dtype))
                           : parameters.status();
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

collective::LinkModel LinkOf(const PlanFlags& flags, Reader& reader) {
  const collective::LinkModel known =
      flags.measured.value_or(collective::LinkModel{.latency_seconds = kLatencySeconds});
  collective::LinkModel link = {
      .latency_seconds =
          flags.latency.empty() ? known.latency_seconds : reader.Seconds("latency", flags.latency),
      .bytes_per_second = flags.bandwidth.empty() && flags.measured
                              ? known.bytes_per_second
                              : reader.BytesPerSecond("bandwidth", flags.bandwidth),
      .message_seconds =
          flags.message.empty() ? known.message_seconds : reader.Seconds("message", flags.message),
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
  if (flags.ranks == 0) {
    reader.Take(absl::StatusOr<int>(
        absl::InvalidArgumentError("give --ranks 8, the number of training processes")));
  }
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
  request.algorithm = reader.Read("algorithm", ParseAlgorithm(flags.algorithm));
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

}  // namespace maypole::cli
