#include "client/src/op_request.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "client/src/failure.h"
#include "collective/schedule.h"
#include "common/dtype.h"
#include "proto/segment_layout.h"
#include "proto/text.h"

namespace maypole::client::internal {
namespace {

constexpr double kTimeoutSecondsMax = 1e9;

Outcome CheckName(const char* name, std::string& checked) {
  if (name == nullptr) {
    return {};
  }
  const std::size_t bytes = std::strlen(name);
  if (bytes > kNameBytesMax) {
    return InvalidArgument("the name '" + std::string(CutUtf8(name, 32)) + "...' has " +
                           std::to_string(bytes) + " bytes; at most " +
                           std::to_string(kNameBytesMax) + " are possible");
  }
  if (!IsPrintableUtf8(name)) {
    return InvalidArgument("the op's name is not printable UTF-8");
  }
  checked = name;
  return {};
}

Outcome CheckTimeout(double seconds, Duration& timeout) {
  if (std::isnan(seconds)) {
    return InvalidArgument("the timeout is not a number");
  }
  timeout = seconds > 0 ? std::chrono::duration_cast<Duration>(
                              std::chrono::duration<double>(std::min(seconds, kTimeoutSecondsMax)))
                        : Duration{0};
  return {};
}

// A C caller can store any number in an enum; to load such a value as the enum would be undefined
// here.
template <typename Enum>
std::uint32_t NumberOf(const Enum& value) {
  std::uint32_t number = 0;
  static_assert(sizeof(value) == sizeof(number));
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

Outcome CheckNumbers(const maypole_all_reduce_options& options) {
  const auto unknown = [](const char* what, std::uint32_t number) {
    return InvalidArgument(std::string(what) + ' ' + std::to_string(number) +
                           " does not exist; see maypole_" + what);
  };
  if (const std::uint32_t dtype = NumberOf(options.dtype); !DTypeFromNumber(dtype)) {
    return unknown("dtype", dtype);
  }
  if (const std::uint32_t reduction = NumberOf(options.reduction);
      !ReductionFromNumber(reduction)) {
    return unknown("reduction", reduction);
  }
  if (const std::uint32_t algorithm = NumberOf(options.algorithm);
      algorithm > collective::kAlgorithms.size()) {
    return unknown("algorithm", algorithm);
  }
  return {};
}

Outcome CheckTensor(void* data, std::uint64_t count, std::uint64_t element_bytes) {
  if (count > std::numeric_limits<std::int64_t>::max() / element_bytes) {
    return InvalidArgument("count " + std::to_string(count) + " of " +
                           std::to_string(element_bytes) + " bytes each is no memory size");
  }
  if (count > 0 && data == nullptr) {
    return InvalidArgument("data is NULL, but count is " + std::to_string(count));
  }
  return {};
}

}  // namespace

Outcome CheckAllReduce(void* data,
                       std::uint64_t count,
                       const maypole_all_reduce_options* options,
                       OpRequest& request) {
  const maypole_all_reduce_options given =
      options != nullptr ? *options : maypole_all_reduce_options{};
  if (Outcome checked = CheckNumbers(given); !checked.ok()) {
    return checked;
  }
  request.element_bytes = SizeOf(static_cast<DType>(given.dtype));
  if (Outcome checked = CheckTensor(data, count, request.element_bytes); !checked.ok()) {
    return checked;
  }
  if (Outcome checked = CheckName(given.name, request.name); !checked.ok()) {
    return checked;
  }
  request.collective = static_cast<std::uint8_t>(collective::Collective::kAllReduce);
  request.dtype = static_cast<std::uint8_t>(given.dtype);
  request.reduction = static_cast<std::uint8_t>(given.reduction);
  request.algorithm = static_cast<std::uint8_t>(given.algorithm);
  request.priority = given.priority;
  request.elements = count;
  request.data = data;
  request.shared_result = given.shared_result != 0;
  request.overwrite = given.overwrite != 0;
  return CheckTimeout(given.timeout, request.timeout);
}

Outcome CheckBarrier(const char* name, double timeout, OpRequest& request) {
  request.collective = static_cast<std::uint8_t>(collective::Collective::kBarrier);
  if (Outcome checked = CheckName(name, request.name); !checked.ok()) {
    return checked;
  }
  return CheckTimeout(timeout, request.timeout);
}

}  // namespace maypole::client::internal
