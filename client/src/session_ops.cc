// The life of an op: placed, submitted, waited for, collected.
#include <algorithm>
#include <cstring>

#include "client/src/failure.h"
#include "client/src/op_request.h"
#include "client/src/session.h"
#include "collective/schedule.h"
#include "proto/text.h"

namespace maypole::client::internal {
namespace {

// A sleeping waiter looks for the end of its agent this often.
constexpr Duration kSleepMax = std::chrono::milliseconds(100);
// The agent ends ops at their deadline. One that runs and is this late will not.
constexpr Duration kGrace = std::chrono::seconds(10);
constexpr double kWaitForSecondsMax = 1e9;

TimePoint Now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

// In the agent's words.
std::string Describe(const OpRequest& request) {
  const auto what = Name(static_cast<collective::Collective>(request.collective));
  return std::string(what) + (request.name.empty() ? " (unnamed)" : " \"" + request.name + '"');
}

SlotRequest MakeSlotRequest(const OpRequest& request) {
  SlotRequest slot;
  slot.collective = request.collective;
  slot.dtype = request.dtype;
  slot.reduction = request.reduction;
  slot.algorithm = request.algorithm;
  slot.priority = request.priority;
  slot.elements = request.elements;
  slot.timeout_ns = request.timeout.count();
  slot.root = request.root;
  slot.peer = request.peer;
  slot.name_bytes = static_cast<std::uint16_t>(StoreText(slot.name, request.name));
  if (request.shared_result) {
    slot.flags = kSlotSharedResult;
  } else if (request.overwrite) {
    slot.flags = kSlotOverwrite;
  }
  return slot;
}

void CopySpan(std::byte* to, const void* from, Span elements, std::uint64_t element_bytes) {
  if (elements.count > 0) {
    const std::uint64_t begin = elements.begin * element_bytes;
    std::memcpy(
        to + begin, static_cast<const std::byte*>(from) + begin, elements.count * element_bytes);
  }
}

}  // namespace

Outcome Session::Submit(OpRequest request, Op& op) {
  if (Outcome standing = Standing(); !standing.ok()) {
    return standing;
  }
  if (settings_.deterministic) {
    if (Outcome made = MakeDeterministic(request); !made.ok()) {
      return made;
    }
  }
  const std::shared_lock in_use(lifetime_mutex_);
  if (is_closed_) {
    return Standing();
  }
  op.session = shared_from_this();
  op.name = Describe(request);
  op.bytes = request.elements * request.element_bytes;
  op.shared_result = request.shared_result;
  SlotRequest slot = MakeSlotRequest(request);
  if (Outcome placed = PlaceBuffers(request, slot, op); !placed.ok()) {
    GiveMemoryBack(op);
    return placed;
  }
  const auto taken = channel_->Submit(slot);
  if (!taken) {
    GiveMemoryBack(op);
    return Failure(ErrorCode::kResourceExhausted,
                   "all " + std::to_string(kSlotCount) + " slots of the session are in use, so " +
                       op.name + " cannot be submitted: wait for earlier ops and free them first");
  }
  op.slot = *taken;
  const Duration timeout =
      request.timeout > Duration{0} ? request.timeout : Duration(membership_.default_timeout_ns);
  if (timeout > Duration{0} && timeout < kNever - Now() - kGrace) {
    op.give_up = Now() + timeout + kGrace;
  }
  return {};
}

Outcome Session::PlaceBuffers(const OpRequest& request, SlotRequest& slot, Op& op) {
  if (op.bytes == 0) {
    return {};
  }
  Place place;
  if (Outcome placed = PlaceTensor(request, "data", request.data, op.tensor, place); !placed.ok()) {
    return placed;
  }
  slot.segment = place.segment;
  slot.offset = place.offset;
  if (op.tensor.staged != nullptr) {
    CopySpan(op.tensor.staged, request.data, request.reads, request.element_bytes);
    if (!request.shared_result) {
      slot.flags |= kSlotOverwrite;  // the input is safe in the caller's memory
    }
  }
  if (request.output != nullptr) {
    if (Outcome placed = PlaceTensor(request, "output", request.output, op.output, place);
        !placed.ok()) {
      return placed;
    }
    slot.output_segment = place.segment;
    slot.output_offset = place.offset;
  }
  const bool is_apart = request.output != nullptr;
  if (std::byte* staged = is_apart ? op.output.staged : op.tensor.staged;
      staged != nullptr && !request.shared_result) {
    const std::uint64_t begin = request.writes.begin * request.element_bytes;
    op.result_from = staged + begin;
    op.result_to = static_cast<std::byte*>(is_apart ? request.output : request.data) + begin;
    op.result_bytes = request.writes.count * request.element_bytes;
  }
  return PlaceCounts(request, slot, op);
}

// At `memory` itself if that is session memory, else in a staging buffer.
Outcome Session::PlaceTensor(
    const OpRequest& request, const char* what, void* memory, Buffer& buffer, Place& place) {
  const std::uint64_t bytes = request.elements * request.element_bytes;
  if (!heap_.Pin(memory, place)) {
    return Stage(bytes, buffer, place);
  }
  buffer.pinned = place.block;
  if (place.room < bytes) {
    return InvalidArgument(std::to_string(bytes) + " bytes at " + what + " do not fit: only " +
                           std::to_string(place.room) +
                           " bytes are left of that allocation of session memory");
  }
  if (place.offset % request.element_bytes != 0) {
    return InvalidArgument(std::string(what) + " is not aligned to its element size of " +
                           std::to_string(request.element_bytes) + " bytes");
  }
  return {};
}

Outcome Session::Stage(std::size_t bytes, Buffer& buffer, Place& place) {
  if (Outcome taken = staging_.Take(bytes, buffer.staged); !taken.ok()) {
    buffer.staged = nullptr;
    return taken;
  }
  heap_.Pin(buffer.staged, place);
  heap_.Unpin(place.block);  // Staging alone frees it
  return {};
}

Outcome Session::PlaceCounts(const OpRequest& request, SlotRequest& slot, Op& op) {
  if (request.counts.empty()) {
    return {};
  }
  const std::size_t bytes = request.counts.size() * sizeof(std::uint64_t);
  Place place;
  if (Outcome staged = Stage(bytes, op.counts, place); !staged.ok()) {
    return staged;
  }
  std::memcpy(op.counts.staged, request.counts.data(), bytes);
  slot.counts_entries = static_cast<std::uint32_t>(request.counts.size());
  slot.counts_segment = place.segment;
  slot.counts_offset = place.offset;
  return {};
}

void Session::GiveMemoryBack(Op& op) {
  for (Buffer* buffer : {&op.tensor, &op.output, &op.counts}) {
    if (buffer->pinned != nullptr) {
      heap_.Unpin(std::exchange(buffer->pinned, nullptr));
    }
    if (buffer->staged != nullptr) {
      staging_.Give(std::exchange(buffer->staged, nullptr));
    }
  }
}

bool Session::IsSettled(const Op& op) {
  if (op.ended || IsForked() || channel_->IsDone(op.slot)) {
    return true;
  }
  LookAtAgent();
  return !Standing().ok() || Now() >= op.give_up;
}

bool Session::WaitUntil(const Op& op, TimePoint deadline) {
  for (;;) {
    if (IsSettled(op)) {
      return true;
    }
    const TimePoint now = Now();
    if (now >= deadline) {
      return false;
    }
    channel_->Sleep(op.slot, std::min(kSleepMax, std::min(deadline, op.give_up) - now));
  }
}

bool Session::WaitFor(const Op& op, double seconds) {
  const double bounded = seconds > 0 ? std::min(seconds, kWaitForSecondsMax) : 0;  // NaN: 0
  return WaitUntil(
      op, Now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(bounded)));
}

const Outcome& Session::Wait(Op& op) {
  if (!op.ended) {
    WaitUntil(op, kNever);
    End(op);
    op.ended = true;
  }
  return op.outcome;
}

void Session::End(Op& op) {
  if (IsForked()) {
    op.outcome = Standing();
    return;
  }
  const std::shared_lock in_use(lifetime_mutex_);
  if (!is_closed_ && channel_->IsDone(op.slot)) {
    op.outcome = Collect(op);
    return;
  }
  // The agent may still write to slot and memory, so neither is used again.
  op.outcome = Standing();
  if (op.outcome.ok()) {
    op.outcome = Failure(ErrorCode::kTimeout,
                         op.name + " has not ended although its deadline passed 10 s ago: " +
                             socket_.name() + " is overloaded");
  } else {
    op.outcome.text = op.name + ": " + op.outcome.text;
  }
}

// Where the shared result lies in this process.
Outcome Session::FindResult(const SlotOutcome& told, Op& op) {
  const MappedRegion* region = nullptr;
  if (Outcome taken = TakeResult(told.result_segment, region); !taken.ok()) {
    return taken;
  }
  if (told.result_offset > region->size() || op.bytes > region->size() - told.result_offset) {
    GiveResult(told.result_segment);
    return Failure(ErrorCode::kInternal, op.name + ": the agent's result lies outside its segment");
  }
  op.result = region->data() + told.result_offset;
  op.result_segment = told.result_segment;
  return {};
}

Outcome Session::Collect(Op& op) {
  const SlotOutcome& told = channel_->outcome(op.slot);
  Outcome outcome = {static_cast<ErrorCode>(told.code),
                     std::string(LoadText(told.error, told.error_bytes)),
                     std::string(LoadText(told.culprits, told.culprit_bytes))};
  const bool has_result = outcome.ok() && op.shared_result;
  if (has_result && op.bytes > 0) {
    outcome = FindResult(told, op);
  } else if (outcome.ok() && op.result_bytes > 0) {
    std::memcpy(op.result_to, op.result_from, op.result_bytes);
  }
  GiveMemoryBack(op);
  if (!has_result) {
    channel_->Give(op.slot, SlotChannel::Release::kSlot);
  } else if (!outcome.ok()) {
    channel_->Give(op.slot, SlotChannel::Release::kSlotAndResult);
  } else {
    op.holds_result = true;
  }
  return outcome;
}

void Session::Finish(Op& op) {
  op.result_bytes = 0;  // who has not waited may use the memory for something else by now
  Wait(op);
  if (!op.holds_result || IsForked()) {
    return;
  }
  op.holds_result = false;
  const std::shared_lock in_use(lifetime_mutex_);
  if (is_closed_) {
    return;
  }
  if (std::exchange(op.result, nullptr) != nullptr) {
    GiveResult(op.result_segment);
  }
  channel_->Give(op.slot, SlotChannel::Release::kSlotAndResult);
}

}  // namespace maypole::client::internal
