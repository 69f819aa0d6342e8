// What the ranks of a simulated job submit; what must come out is in reference.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/engine/events.h"
#include "collective/parts.h"
#include "tests/sim/event_queue.h"

namespace maypole::sim {

// One op of a job, as all its ranks mean it.
struct OpSpec {
  std::string name;
  collective::Collective collective = collective::Collective::kAllReduce;
  collective::Algorithm algorithm = collective::Algorithm::kAuto;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  ElementCount elements = 0;
  std::uint32_t root = 0;
  std::uint32_t peer = 0;
  std::vector<ElementCount> counts;
  std::int32_t priority = 0;
  Duration timeout{0};
  std::optional<std::uint32_t> forgotten_by;  // this rank never submits it
  std::optional<std::uint32_t> differs_at;    // this rank submits more elements, or another root

  bool TakesPart(std::uint32_t rank) const {
    return collective != collective::Collective::kSendReceive || rank == root || rank == peer;
  }
};

collective::Layout LayoutOf(const OpSpec& op, const collective::Placement& placement);

// Tensors are aligned to 64 bytes, as segments give them.
class Bytes {
 public:
  explicit Bytes(std::uint64_t size);

  std::byte* data() const { return data_.get(); }

  std::uint64_t size() const { return size_; }

  agent::BufferView view() const { return {.address = data(), .bytes = size_}; }

  friend bool operator==(const Bytes& a, const Bytes& b);

 private:
  struct Free {
    void operator()(std::byte* address) const;
  };

  std::uint64_t size_;
  std::unique_ptr<std::byte, Free> data_;
};

// One rank's use of an op.
struct OpUse {
  std::size_t op = 0;  // index into the job's ops
  ElementCount elements = 0;
  std::uint32_t root = 0;
  bool shared = false;
  bool overwrite = false;
  std::unique_ptr<Bytes> tensor;
  std::unique_ptr<Bytes> input;   // a copy
  std::unique_ptr<Bytes> output;  // of an all-to-all
  std::uint32_t slot = 0;
  std::optional<TimePoint> submitted;
  std::optional<TimePoint> completed;
  bool given_up = false;  // its session was failed before it was completed
  Outcome outcome;
  std::vector<std::byte> result;
};

struct WorkloadOptions {
  std::uint32_t members_max = 5;
  std::uint64_t slice_elements = 64;
};

std::vector<OpSpec> MakeOps(Random& random,
                            std::uint32_t world_size,
                            std::uint32_t members,
                            const WorkloadOptions& options,
                            bool with_errors);

// Values whose sums depend on the order of summing, for the types where they can.
std::unique_ptr<Bytes> MakeInput(Random& random, DType dtype, ElementCount elements);

}  // namespace maypole::sim
