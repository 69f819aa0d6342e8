// The life of an op: placed, submitted, waited for, collected.
#include <algorithm>
#include <cstring>

#include "client/src/failure.h"
#include "client/src/session.h"
#include "proto/text.h"

namespace maypole::client::internal {
namespace {

// A sleeping waiter looks for the end of its agent this often.
constexpr Duration kSleepMax = std::chrono::milliseconds(100);
// The agent ends ops at their deadline. One that is this late will not.
constexpr Duration kGrace = std::chrono::seconds(10);
constexpr double kWaitForSecondsMax = 1e9;

TimePoint Now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

// In the agent's words.
std::string Describe(const OpRequest& request) {
  const std::string what = request.collective == 0 ? "all_reduce" : "barrier";
  return what + (request.name.empty() ? " (unnamed)" : " \"" + request.name + '"');
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
  slot.name_bytes = static_cast<std::uint16_t>(StoreText(slot.name, request.name));
  if (request.shared_result) {
    slot.flags = kSlotSharedResult;
  } else if (request.overwrite) {
    slot.flags = kSlotOverwrite;
  }
  return slot;
}

}  // namespace

Outcome Session::Submit(const OpRequest& request, Op& op) {
  if (Outcome standing = Standing(); !standing.ok()) {
    return standing;
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
  if (op.bytes > 0) {
    if (Outcome placed = PlaceTensor(request, slot, op); !placed.ok()) {
      return placed;
    }
  }
  const auto taken = channel_->Submit(slot);
  if (!taken) {
    GiveMemoryBack(op);
    return Failure(ErrorCode::kResourceExhausted,
                   "all " + std::to_string(kSlotCount) + " slots of the session are in use, so " +
                       op.name + " cannot be submitted: wait for earlier ops and free them first");
  }
  op.slot = *taken;
  // The agent ends ops at their deadline; past it, the agent itself is stopped.
  const Duration timeout =
      request.timeout > Duration{0} ? request.timeout : Duration(membership_.default_timeout_ns);
  if (timeout > Duration{0} && timeout < kNever - Now() - kGrace) {
    op.give_up = Now() + timeout + kGrace;
  }
  return {};
}

Outcome Session::PlaceTensor(const OpRequest& request, SlotRequest& slot, Op& op) {
  Place place;
  if (heap_.Pin(request.data, place)) {
    return PlaceInHeap(request, place, slot, op);
  }
  if (Outcome taken = staging_.Take(op.bytes, op.staged); !taken.ok()) {
    op.staged = nullptr;
    return taken;
  }
  op.user_memory = request.shared_result ? nullptr : request.data;
  std::memcpy(op.staged, request.data, op.bytes);
  heap_.Pin(op.staged, place);
  heap_.Unpin(place.block);  // Staging alone frees it
  slot.segment = place.segment;
  slot.offset = place.offset;
  if (!request.shared_result) {
    slot.flags |= kSlotOverwrite;  // the input is safe in the caller's memory
  }
  return {};
}

Outcome Session::PlaceInHeap(const OpRequest& request,
                             const Place& place,
                             SlotRequest& slot,
                             Op& op) {
  op.pinned = place.block;
  std::string fault;
  if (place.room < op.bytes) {
    fault = std::to_string(op.bytes) + " bytes at data do not fit: only " +
            std::to_string(place.room) + " bytes are left of that allocation of session memory";
  } else if (place.offset % request.element_bytes != 0) {
    fault = "data is not aligned to its element size of " + std::to_string(request.element_bytes) +
            " bytes";
  }
  if (!fault.empty()) {
    GiveMemoryBack(op);
    return InvalidArgument(fault);
  }
  slot.segment = place.segment;
  slot.offset = place.offset;
  return {};
}

void Session::GiveMemoryBack(Op& op) {
  if (op.pinned != nullptr) {
    heap_.Unpin(std::exchange(op.pinned, nullptr));
  }
  if (op.staged != nullptr) {
    staging_.Give(std::exchange(op.staged, nullptr));
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
                             socket_.name() + " is stopped or overloaded");
  } else {
    op.outcome.text = op.name + ": " + op.outcome.text;
  }
}

Outcome Session::Collect(Op& op) {
  const SlotOutcome& told = channel_->outcome(op.slot);
  Outcome outcome = {static_cast<ErrorCode>(told.code),
                     std::string(LoadText(told.error, told.error_bytes)),
                     std::string(LoadText(told.culprits, told.culprit_bytes))};
  const bool has_result = outcome.ok() && op.shared_result;
  if (has_result && op.bytes > 0) {
    const MappedRegion* region = nullptr;
    outcome = MapResult(told.result_segment, region);
    if (outcome.ok() &&
        (told.result_offset > region->size() || op.bytes > region->size() - told.result_offset)) {
      outcome =
          Failure(ErrorCode::kInternal, op.name + ": the agent's result lies outside its segment");
    }
    if (outcome.ok()) {
      op.result = region->data() + told.result_offset;
    }
  } else if (outcome.ok() && op.user_memory != nullptr) {
    std::memcpy(op.user_memory, op.staged, op.bytes);
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

void Session::ReleaseResult(Op& op) {
  if (!op.holds_result || IsForked()) {
    return;
  }
  op.holds_result = false;
  op.result = nullptr;
  const std::shared_lock in_use(lifetime_mutex_);
  if (!is_closed_) {
    channel_->Give(op.slot, SlotChannel::Release::kSlotAndResult);
  }
}

}  // namespace maypole::client::internal
