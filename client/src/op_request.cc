#include "client/src/op_request.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "client/src/failure.h"
#include "collective/parts.h"
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

Outcome CheckNumbers(const maypole_op_options& options) {
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

// What all have in common. All elements are read and written.
Outcome CheckOp(collective::Collective collective,
                TensorArgument tensor,
                const maypole_op_options* options,
                OpRequest& request) {
  const maypole_op_options given = options != nullptr ? *options : maypole_op_options{};
  if (Outcome checked = CheckNumbers(given); !checked.ok()) {
    return checked;
  }
  request.element_bytes = SizeOf(static_cast<DType>(given.dtype));
  if (Outcome checked = CheckTensor(tensor.data, tensor.count, request.element_bytes);
      !checked.ok()) {
    return checked;
  }
  if (Outcome checked = CheckName(given.name, request.name); !checked.ok()) {
    return checked;
  }
  if (given.shared_result != 0 && !EverybodyGetsAll(collective)) {
    return InvalidArgument("shared_result is possible where all ranks get the same, not for " +
                           std::string(Name(collective)));
  }
  request.collective = static_cast<std::uint8_t>(collective);
  request.dtype = static_cast<std::uint8_t>(given.dtype);
  request.reduction = static_cast<std::uint8_t>(given.reduction);
  request.algorithm = static_cast<std::uint8_t>(given.algorithm);
  request.priority = given.priority;
  request.elements = tensor.count;
  request.data = tensor.data;
  request.reads = {0, tensor.count};
  request.writes = {0, tensor.count};
  request.shared_result = given.shared_result != 0;
  request.overwrite = given.overwrite != 0;
  return CheckTimeout(given.timeout, request.timeout);
}

Outcome CheckRank(const char* what, std::int64_t rank, Caller caller, std::uint32_t& checked) {
  if (rank < 0 || rank >= std::int64_t{caller.world_size}) {
    return InvalidArgument(std::string(what) + " is rank " + std::to_string(rank) +
                           ", which this job has not; ranks are 0 to " +
                           std::to_string(caller.world_size - 1));
  }
  checked = static_cast<std::uint32_t>(rank);
  return {};
}

Outcome CheckDivides(collective::Collective collective, std::uint64_t count, Caller caller) {
  if (count % caller.world_size == 0) {
    return {};
  }
  return InvalidArgument("count " + std::to_string(count) + " of " + std::string(Name(collective)) +
                         " is not a multiple of the world size " +
                         std::to_string(caller.world_size) +
                         (HasCounts(collective) ? "; give counts for uneven blocks" : ""));
}

Outcome TakeCounts(std::uint64_t count,
                   const std::uint64_t* counts,
                   Caller caller,
                   OpRequest& request) {
  request.counts.assign(counts, counts + caller.world_size);
  std::uint64_t sum = 0;
  bool fits = true;
  for (const std::uint64_t block : request.counts) {
    fits = fits && block <= count - sum;
    sum += fits ? block : 0;
  }
  if (fits && sum == count) {
    return {};
  }
  return InvalidArgument("the counts of the " + std::to_string(caller.world_size) +
                         " ranks add up to " + (fits ? std::to_string(sum) : "more") +
                         ", not to count " + std::to_string(count));
}

}  // namespace

Outcome CheckAllReduce(TensorArgument tensor,
                       const maypole_op_options* options,
                       OpRequest& request) {
  return CheckOp(collective::Collective::kAllReduce, tensor, options, request);
}

Outcome CheckBlocks(collective::Collective collective,
                    TensorArgument tensor,
                    const std::uint64_t* counts,
                    const maypole_op_options* options,
                    Caller caller,
                    OpRequest& request) {
  if (Outcome checked = CheckOp(collective, tensor, options, request); !checked.ok()) {
    return checked;
  }
  Outcome checked = counts != nullptr ? TakeCounts(tensor.count, counts, caller, request)
                                      : CheckDivides(collective, tensor.count, caller);
  if (!checked.ok()) {
    return checked;
  }
  Span own = {caller.rank * (tensor.count / caller.world_size), tensor.count / caller.world_size};
  if (counts != nullptr) {
    own = {std::accumulate(counts, counts + caller.rank, std::uint64_t{0}), counts[caller.rank]};
  }
  (collective == collective::Collective::kAllGather ? request.reads : request.writes) = own;
  return {};
}

Outcome CheckRooted(collective::Collective collective,
                    TensorArgument tensor,
                    std::int64_t root,
                    const maypole_op_options* options,
                    Caller caller,
                    OpRequest& request) {
  if (Outcome checked = CheckOp(collective, tensor, options, request); !checked.ok()) {
    return checked;
  }
  if (Outcome checked = CheckRank("root", root, caller, request.root); !checked.ok()) {
    return checked;
  }
  const bool is_root = request.root == caller.rank;
  if (collective == collective::Collective::kBroadcast) {
    (is_root ? request.writes : request.reads) = {};
  } else if (!is_root) {
    request.writes = {};
  }
  return {};
}

Outcome CheckAllToAll(TensorArgument input,
                      void* output,
                      const maypole_op_options* options,
                      Caller caller,
                      OpRequest& request) {
  constexpr auto kCollective = collective::Collective::kAllToAll;
  if (Outcome checked = CheckOp(kCollective, input, options, request); !checked.ok()) {
    return checked;
  }
  if (Outcome checked = CheckDivides(kCollective, input.count, caller); !checked.ok()) {
    return checked;
  }
  const auto* const from = static_cast<const std::byte*>(input.data);
  const auto* const to = static_cast<const std::byte*>(output);
  const std::uint64_t bytes = input.count * request.element_bytes;
  if (input.count > 0 && output == nullptr) {
    return InvalidArgument("output is NULL, but count is " + std::to_string(input.count));
  }
  if (std::less<>()(from, to + bytes) && std::less<>()(to, from + bytes)) {
    return InvalidArgument("input and output of an all_to_all must not overlap");
  }
  request.output = output;
  return {};
}

Outcome CheckSide(Side side,
                  TensorArgument tensor,
                  std::int64_t other,
                  const maypole_op_options* options,
                  Caller caller,
                  OpRequest& request) {
  if (Outcome checked = CheckOp(collective::Collective::kSendReceive, tensor, options, request);
      !checked.ok()) {
    return checked;
  }
  const bool sends = side == Side::kSend;
  std::uint32_t& theirs = sends ? request.peer : request.root;
  if (Outcome checked = CheckRank(sends ? "to" : "from", other, caller, theirs); !checked.ok()) {
    return checked;
  }
  if (theirs == caller.rank) {
    return InvalidArgument("rank " + std::to_string(theirs) + " cannot " +
                           (sends ? "send to" : "receive from") + " itself");
  }
  (sends ? request.root : request.peer) = caller.rank;
  (sends ? request.writes : request.reads) = {};
  return {};
}

Outcome MakeDeterministic(OpRequest& request) {
  using collective::Algorithm;
  const auto algorithm = static_cast<Algorithm>(request.algorithm);
  if (!Sums(static_cast<collective::Collective>(request.collective)) ||
      algorithm == Algorithm::kDirect || algorithm == Algorithm::kNaive) {
    return {};
  }
  if (algorithm != Algorithm::kAuto) {
    return InvalidArgument("algorithm \"" + std::string(Name(algorithm)) +
                           "\" cannot be had in a deterministic session, where sums are \"direct\" "
                           "or \"naive\"");
  }
  request.algorithm = static_cast<std::uint8_t>(Algorithm::kDirect);
  return {};
}

Outcome CheckBarrier(const char* name, double timeout, OpRequest& request) {
  request.collective = static_cast<std::uint8_t>(collective::Collective::kBarrier);
  if (Outcome checked = CheckName(name, request.name); !checked.ok()) {
    return checked;
  }
  return CheckTimeout(timeout, request.timeout);
}

}  // namespace maypole::client::internal
