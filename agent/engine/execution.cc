#include "agent/engine/execution.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace maypole::agent {

using collective::Buffer;
using collective::kNoStep;
using collective::Step;
using collective::StepKind;

namespace {

// A copy need not write what it reads.
void DropOwnSource(ReduceWork& work) {
  std::erase_if(work.outputs, [&](const Operand& output) {
    return output.buffer.address == work.inputs.front().buffer.address;
  });
}

}  // namespace

Execution::Execution(ExecutionSpec spec, std::uint64_t token_base, Memory& memory)
    : spec_(std::move(spec)),
      token_base_(token_base),
      memory_(memory),
      accumulator_(AccumulatorOf(spec_.dtype)) {
  MAYPOLE_CHECK(!spec_.locals.empty());
  steps_.resize(spec_.plan->size());
  steps_left_ = steps_.size();
  undo_.resize(spec_.locals.size());
  for (LocalTensor& local : spec_.locals) {
    local.restorable = local.restorable && local.output.address == local.input.address && CanFail();
    restorable_ = restorable_ || local.restorable;
  }
}

Execution::~Execution() {
  for (StepState& state : steps_) {
    for (Slice* slice : {&state.slice, &state.received}) {
      if (!slice->payload) {
        Free(slice->buffer);
      }
    }
  }
  for (Undo& undo : undo_) {
    Free(undo.copy);
  }
}

std::uint64_t Execution::Token(StepIndex index, TokenKind kind) const {
  return token_base_ | (std::uint64_t{index} << 2) | static_cast<std::uint64_t>(kind);
}

ElementCount Execution::Elements(StepIndex index) const {
  return spec_.plan->step(index).range.size();
}

bool Execution::Allocate(StepIndex index, DType dtype, Slice& slice) {
  const BufferView scratch = memory_.AllocateScratch(Elements(index) * SizeOf(dtype));
  if (scratch.address == nullptr) {
    MAYPOLE_CHECK(CanFail());  // partial sums are for messages
    out_of_memory_ = true;
    return false;
  }
  slice = {scratch, std::nullopt};
  return true;
}

void Execution::Free(BufferView& scratch) {
  if (scratch.address != nullptr) {
    memory_.FreeScratch(std::exchange(scratch, BufferView{}));
  }
}

void Execution::Release(Slice& slice, ExecutionOutput& out) {
  if (slice.payload) {
    out.actions.emplace_back(DropPayload{*slice.payload});
    slice = {};
  } else {
    Free(slice.buffer);
  }
}

// What arrives is added to something, or kept as a partial sum; else it is a finished range.
bool Execution::IsSum(StepIndex index) const {
  const Step& step = spec_.plan->step(index);
  return step.kind == StepKind::kReceiveReduce || step.target == Buffer::kPartial;
}

void Execution::ReleaseReader(StepIndex writer, ExecutionOutput& out) {
  StepState& state = steps_[writer];
  if (state.readers > 0 && --state.readers == 0) {
    Release(state.slice, out);
  }
}

bool Execution::Start(ExecutionOutput& out) {
  if (!AllocateUndo()) {
    return false;
  }
  for (StepIndex i = 0; i < steps_.size(); ++i) {
    steps_[i].waits = spec_.plan->Dependencies(i);
    steps_[i].readers = spec_.plan->ReadersOf(i);
  }
  for (StepIndex i = 0; i < steps_.size(); ++i) {
    if (spec_.plan->Dependencies(i) == 0) {
      Ready(i, out);
    }
  }
  return true;
}

void Execution::Ready(StepIndex index, ExecutionOutput& out) {
  StepState& state = steps_[index];
  switch (spec_.plan->step(index).kind) {
    case StepKind::kSend:
      StartSend(index, out);
      return;
    case StepKind::kReceive:
    case StepKind::kReceiveReduce:
      if (state.payload_here) {
        OnReceived(index, out);
      } else if (state.arrival && !state.receive_begun) {
        StartReceive(index, out);
      }
      return;
    case StepKind::kReduce:
    case StepKind::kCopy:
      StartReduce(index, out);
      return;
  }
}

void Execution::Complete(StepIndex index, ExecutionOutput& out) {
  StepState& state = steps_[index];
  MAYPOLE_CHECK(!state.done);
  state.done = true;
  --steps_left_;
  if (spec_.plan->WriterOf(index) != kNoStep) {
    ReleaseReader(spec_.plan->WriterOf(index), out);
  }
  if (aborted_) {
    return;
  }
  for (const StepIndex dependent : spec_.plan->Dependents(index)) {
    if (--steps_[dependent].waits == 0) {
      Ready(dependent, out);
    }
  }
}

void Execution::StartSend(StepIndex index, ExecutionOutput& out) {
  const Step& step = spec_.plan->step(index);
  if (step.source == Buffer::kInput) {
    if (const LocalTensor* sole = SoleInput(index)) {
      QueueSend(index, InputOf(*sole, index), out);
      return;
    }
    ReduceWork work = NewWork(index);
    AddInputs(index, work);
    if (Allocate(index, accumulator_, steps_[index].slice)) {
      work.outputs.push_back({steps_[index].slice.buffer, accumulator_});
      RunWork(index, TokenKind::kWork, std::move(work), out);
    }
    return;
  }
  const BufferView written = steps_[spec_.plan->WriterOf(index)].slice.buffer;
  QueueSend(index, written.address != nullptr ? written : Primary(index), out);
}

void Execution::QueueSend(StepIndex index, BufferView payload, ExecutionOutput& out) {
  const Step& step = spec_.plan->step(index);
  ++outstanding_sends_;
  out.sends.push_back({step.peer, step.ordinal, payload, Token(index, TokenKind::kSend)});
}

bool Execution::OnArrival(Member peer,
                          std::uint32_t ordinal,
                          const ArrivedPayload& payload,
                          ExecutionOutput& out) {
  const StepIndex index = spec_.plan->ReceiveOf(peer, ordinal);
  if (index == kNoStep || aborted_ || steps_[index].arrival) {
    out.actions.emplace_back(DropPayload{payload.id});
    return aborted_;
  }
  // A lone rank's input travels in the tensor's type, sums in the accumulator's; the size tells
  // which it is.
  const bool is_tensor_type = payload.bytes == Elements(index) * SizeOf(spec_.dtype);
  const bool is_accumulator =
      IsSum(index) && payload.bytes == Elements(index) * SizeOf(accumulator_);
  if (!is_tensor_type && !is_accumulator) {
    out.actions.emplace_back(DropPayload{payload.id});
    return false;
  }
  StepState& state = steps_[index];
  state.arrival = payload.id;
  state.received_dtype = is_tensor_type ? spec_.dtype : accumulator_;
  if (KeepWhereItLies(index, payload)) {
    OnReceived(index, out);
  } else if (IsSum(index) || state.waits == 0) {
    // A sum is received into scratch of its own and may come early; a finished range must not be
    // written before its turn.
    StartReceive(index, out);
  }
  return true;
}

bool Execution::KeepWhereItLies(StepIndex index, const ArrivedPayload& payload) {
  StepState& state = steps_[index];
  if (payload.view.empty() || (!IsSum(index) && !IsPublished(index))) {
    return false;
  }
  // Works and sends only read what they are given as a source.
  auto* const address = const_cast<std::byte*>(payload.view.data());
  if (reinterpret_cast<std::uintptr_t>(address) % SizeOf(state.received_dtype) != 0) {
    return false;
  }
  (IsSum(index) ? state.received : state.slice) = {{.address = address, .bytes = payload.bytes},
                                                   payload.id};
  state.receive_begun = true;
  return true;
}

void Execution::StartReceive(StepIndex index, ExecutionOutput& out) {
  StepState& state = steps_[index];
  BufferView target;
  if (IsSum(index) || IsUndone(index)) {
    Slice& slice = IsSum(index) ? state.received : state.slice;
    if (!Allocate(index, state.received_dtype, slice)) {
      return;
    }
    target = slice.buffer;
  } else {
    target = Primary(index);
  }
  state.receive_begun = true;
  ++outstanding_writes_;
  out.actions.emplace_back(
      ReceivePayload{*state.arrival, target, Token(index, TokenKind::kReceive)});
}

void Execution::OnReceived(StepIndex index, ExecutionOutput& out) {
  StepState& state = steps_[index];
  state.payload_here = true;
  if (state.waits > 0) {
    return;
  }
  if (IsSum(index)) {
    StartReduce(index, out);
    return;
  }
  if (IsPublished(index)) {
    ++state.readers;  // the publication
    const BufferView here = state.slice.buffer;
    Publish(index, {here.address != nullptr ? here : Primary(index), spec_.dtype}, out);
  }
  Complete(index, out);
}

// kReceiveReduce: received (+) source; kReduce: own input (+) partial; kCopy and kReceive into
// kPartial: the operand alone.
void Execution::StartReduce(StepIndex index, ExecutionOutput& out) {
  StepState& state = steps_[index];
  const Step& step = spec_.plan->step(index);
  if (step.kind == StepKind::kReceive && state.received_dtype == accumulator_) {
    state.slice = std::exchange(state.received, Slice{});  // it came as it is to be kept
    Complete(index, out);
    return;
  }
  ReduceWork work = NewWork(index);
  const StepIndex writer = spec_.plan->WriterOf(index);
  const BufferView written = writer != kNoStep ? steps_[writer].slice.buffer : BufferView{};
  switch (step.kind) {
    case StepKind::kReceive:
      work.inputs.push_back({state.received.buffer, state.received_dtype});
      break;
    case StepKind::kReduce:
      AddInputs(index, work);
      work.received = {written, accumulator_};
      break;
    case StepKind::kReceiveReduce:
      work.received = {state.received.buffer, state.received_dtype};
      [[fallthrough]];
    case StepKind::kCopy:
      if (step.source == Buffer::kInput) {
        AddInputs(index, work);
      } else {
        work.inputs.push_back({written, accumulator_});
      }
      break;
    case StepKind::kSend:
      MAYPOLE_CHECK(false);
  }
  if (!AddOutputs(index, work)) {
    return;
  }
  if (!spec_.plan->PartOf(index).is_sum()) {
    DropOwnSource(work);
    if (work.outputs.empty()) {
      Complete(index, out);  // it lies where it should
      return;
    }
  }
  RunWork(index, TokenKind::kWork, std::move(work), out);
}

void Execution::OnReduced(StepIndex index, ExecutionOutput& out) {
  StepState& state = steps_[index];
  const Step& step = spec_.plan->step(index);
  if (step.kind == StepKind::kSend) {
    if (!aborted_) {
      QueueSend(index, state.slice.buffer, out);
    }
    return;
  }
  Release(state.received, out);
  Complete(index, out);
}

void Execution::Publish(StepIndex index, Operand source, ExecutionOutput& out) {
  ReduceWork work = NewWork(index);
  work.inputs.push_back(source);
  work.divisor = 0;
  const bool added = AddOutputs(index, work);
  MAYPOLE_CHECK(added);  // it goes into place
  DropOwnSource(work);
  RunWork(index, TokenKind::kPublish, std::move(work), out);
}

void Execution::RunWork(StepIndex index, TokenKind kind, ReduceWork work, ExecutionOutput& out) {
  ++outstanding_writes_;
  out.actions.emplace_back(agent::RunWork{Token(index, kind), std::move(work)});
}

void Execution::OnTokenDone(std::uint64_t token, bool ok, ExecutionOutput& out) {
  const auto kind = static_cast<TokenKind>(token & 3);
  const auto index = static_cast<StepIndex>((token - token_base_) >> 2);
  MAYPOLE_CHECK(index < steps_.size() || aborted_);
  --(kind == TokenKind::kSend ? outstanding_sends_ : outstanding_writes_);
  if (!ok) {
    transfer_failed_ = true;
  } else if (restore_begun_ && kind == TokenKind::kPublish) {
    return;  // one of the restoring copies
  } else {
    switch (kind) {
      case TokenKind::kReceive:
        if (!aborted_) {
          OnReceived(index, out);
        }
        break;
      case TokenKind::kSend:
        if (spec_.plan->step(index).source == Buffer::kInput) {
          Release(steps_[index].slice, out);
        }
        Complete(index, out);
        break;
      case TokenKind::kWork:
        OnReduced(index, out);
        break;
      case TokenKind::kPublish:
        ReleaseReader(index, out);
        break;
    }
  }
  RestoreIfQuiet(out);
}

void Execution::Abort(ExecutionOutput& out) {
  if (std::exchange(aborted_, true)) {
    return;
  }
  for (StepState& state : steps_) {
    if (state.arrival && !state.receive_begun) {
      out.actions.emplace_back(DropPayload{*state.arrival});
    }
  }
  RestoreIfQuiet(out);
}

// A send may be the last that its receiver needs to succeed, so it must end before the bytes that
// it reads change, by the restoring here or by the rank that is told of the failure.
void Execution::RestoreIfQuiet(ExecutionOutput& out) {
  if (!aborted_ || restore_begun_ || outstanding_sends_ + outstanding_writes_ != 0) {
    return;
  }
  restore_begun_ = true;
  for (StepState& state : steps_) {
    Release(state.slice, out);
    Release(state.received, out);
  }
  StepIndex work_index = 0;
  for (std::size_t i = 0; i < spec_.locals.size(); ++i) {
    const LocalTensor& local = spec_.locals[i];
    for (const StepIndex index : saved_) {
      if (local.restorable && Gets(local, index)) {
        ReduceWork work;
        work.saves.push_back({UndoOf(i, index), OutputOf(local.output, index)});
        RunWork(work_index++, TokenKind::kPublish, std::move(work), out);
      }
    }
  }
}

std::vector<Member> Execution::AwaitedPeers() const {
  std::vector<Member> peers;
  for (StepIndex i = 0; i < steps_.size(); ++i) {
    const Step& step = spec_.plan->step(i);
    const bool receives = step.kind == StepKind::kReceive || step.kind == StepKind::kReceiveReduce;
    if (receives && !steps_[i].arrival &&
        std::find(peers.begin(), peers.end(), step.peer) == peers.end()) {
      peers.push_back(step.peer);
    }
  }
  return peers;
}

}  // namespace maypole::agent
