// One op being carried out: interprets a plan over the tensors of this node's ranks. Knows no
// algorithm.
//
// Pure: events in (what arrived, what was sent, what was summed), actions out. Memory comes from
// `Memory`, addresses are never dereferenced here.
//
// Where elements live:
//   kInput    the ranks' tensors. What comes from one rank is sent out of the segment itself
//             (zero-copy); the sum of several is made first, fused into whatever else the step
//             does.
//   kPartial  slices of scratch, in the accumulator type
//   kResult   the tensors of the ranks that get the part (in place), and at most one shared copy
//   frames    summed, published and sent on from where the transport keeps their payload, if it
//             can be read there; else received into scratch, or straight into place if that is the
//             only place and need not be restored.
//
// Undo: before a sum overwrites elements of an in-place tensor that must be restorable, they are
// copied aside, slice by slice. (What is not a sum overwrites no input, or with the same bytes.)
// After a failure the copies go back before the failure is told.
//
// Ownership: borrows plan and memory; the tensors must stay mapped until Drained().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "agent/engine/events.h"
#include "agent/engine/plan.h"
#include "agent/memory/memory.h"
#include "common/dtype.h"

namespace maypole::agent {

// One local rank's part in an op. What of it is read and written, the plan's parts say.
struct LocalTensor {
  Rank rank{0};
  BufferView input;
  BufferView output;  // of its own; in place: the input. Null address: it reads the shared copy
  bool restorable = false;  // in place, and the input comes back if the op fails
};

struct ExecutionSpec {
  std::shared_ptr<const Plan> plan;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  std::uint32_t world_size = 1;
  std::vector<LocalTensor> locals;  // in rank order; at least one
  BufferView shared_result;         // null address: nobody wants one; else all get all parts
};

// A frame that the execution wants sent; the core orders them by priority and window.
struct QueuedSend {
  Member peer{0};
  std::uint32_t ordinal = 0;
  BufferView payload;
  TransferToken token = 0;
};

struct ExecutionOutput {
  std::vector<Action> actions;
  std::vector<QueuedSend> sends;
};

class Execution {
 public:
  // Tokens of this execution are token_base + [0, 2^34); the caller gives each live execution its
  // own.
  static constexpr int kTokenBits = 34;

  Execution(ExecutionSpec spec, std::uint64_t token_base, Memory& memory);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  ~Execution();

  // False, and nothing has begun, if there is no memory for the copies that a failure would need.
  bool Start(ExecutionOutput& out);

  // A data frame for this op. False: it fits no step that still waits (wrong size, sent twice); its
  // payload was dropped.
  bool OnArrival(Member peer,
                 std::uint32_t ordinal,
                 const ArrivedPayload& payload,
                 ExecutionOutput& out);
  // The end of a receive, send or work that carries a token of this execution.
  void OnTokenDone(std::uint64_t token, bool ok, ExecutionOutput& out);

  // Stops: nothing new begins, and once sends and writes in flight have ended, what was overwritten
  // is restored. Sends that were queued and not begun come back with OnTokenDone(token, false).
  void Abort(ExecutionOutput& out);

  // All steps are done and nothing is outstanding.
  bool Succeeded() const {
    return !aborted_ && steps_left_ == 0 && outstanding_sends_ == 0 && outstanding_writes_ == 0;
  }

  // Without messages it ends by itself, and nothing is put aside to undo it.
  bool CanFail() const { return spec_.plan->has_messages(); }

  // Aborted, the tensors are as submitted, and nothing is outstanding.
  bool Restored() const { return restore_begun_ && outstanding_writes_ == 0; }

  // Nothing uses the tensors any more.
  bool Drained() const { return Succeeded() || Restored(); }

  // A transfer ended without success though nobody aborted: the owner should.
  bool transfer_failed() const { return transfer_failed_; }

  // A step did not begin for want of scratch, and never will: the owner should abort.
  bool out_of_memory() const { return out_of_memory_; }

  bool aborted() const { return aborted_; }

  // The peers whose frames are still missing, for explanations.
  std::vector<Member> AwaitedPeers() const;

 private:
  enum class TokenKind : std::uint8_t { kReceive = 0, kSend = 1, kWork = 2, kPublish = 3 };

  // A range's elements outside the tensors: in scratch, or where the transport keeps a payload.
  struct Slice {
    BufferView buffer;
    std::optional<ArrivalId> payload;
  };

  struct StepState {
    std::uint32_t waits = 0;    // dependencies not yet done
    std::uint32_t readers = 0;  // steps that will still read `slice`, plus publications
    Slice slice;     // what later steps read: partial sum, finished range, local sum to send
    Slice received;  // what a frame brought, until it has been summed
    DType received_dtype = DType::kF32;
    std::optional<ArrivalId> arrival;
    bool receive_begun = false;
    bool payload_here = false;
    bool done = false;
  };

  using StepIndex = collective::StepIndex;

  std::uint64_t Token(StepIndex index, TokenKind kind) const;
  ElementCount Elements(StepIndex index) const;
  bool AllocateUndo();
  // False, and out_of_memory, if there is none.
  bool Allocate(StepIndex index, DType dtype, Slice& slice);
  void Free(BufferView& scratch);
  void Release(Slice& slice, ExecutionOutput& out);
  void ReleaseReader(StepIndex writer, ExecutionOutput& out);

  void Ready(StepIndex index, ExecutionOutput& out);
  void Complete(StepIndex index, ExecutionOutput& out);
  void StartSend(StepIndex index, ExecutionOutput& out);
  void QueueSend(StepIndex index, BufferView payload, ExecutionOutput& out);
  void StartReceive(StepIndex index, ExecutionOutput& out);
  bool KeepWhereItLies(StepIndex index, const ArrivedPayload& payload);
  void OnReceived(StepIndex index, ExecutionOutput& out);
  void StartReduce(StepIndex index, ExecutionOutput& out);
  void OnReduced(StepIndex index, ExecutionOutput& out);
  void Publish(StepIndex index, Operand source, ExecutionOutput& out);
  void RunWork(StepIndex index, TokenKind kind, ReduceWork work, ExecutionOutput& out);

  ReduceWork NewWork(StepIndex index) const;
  void AddInputs(StepIndex index, ReduceWork& work) const;
  // False if there is no scratch for a partial sum.
  bool AddOutputs(StepIndex index, ReduceWork& work);
  // The rank whose input is all that this member puts in; null if it is the sum of several.
  const LocalTensor* SoleInput(StepIndex index) const;
  bool Gets(const LocalTensor& local, StepIndex index) const;
  // What is written must come back after a failure.
  bool IsUndone(StepIndex index) const;
  // Where kResult of this range may be read and received into directly: the first tensor of a rank
  // that gets it, else the shared copy.
  BufferView Primary(StepIndex index) const;
  BufferView InputOf(const LocalTensor& local, StepIndex index) const;
  // Of a tensor or copy that gets the whole result.
  BufferView OutputOf(BufferView tensor, StepIndex index) const;
  BufferView UndoOf(std::size_t local, StepIndex index) const;
  std::size_t ResultPlaces(StepIndex index) const;
  bool IsPublished(StepIndex index) const;
  bool IsSum(StepIndex index) const;
  void RestoreIfQuiet(ExecutionOutput& out);

  ExecutionSpec spec_;
  std::uint64_t token_base_;
  Memory& memory_;
  DType accumulator_;
  bool restorable_ = false;  // some local tensor is
  std::vector<StepState> steps_;

  // Copies of what sums overwrite, from element `begin` of the tensor on.
  struct Undo {
    ElementCount begin = 0;
    BufferView copy;  // null address: nothing of this tensor is overwritten and must come back
  };

  std::vector<Undo> undo_;  // one per local tensor
  std::vector<StepIndex> saved_;
  std::uint64_t steps_left_ = 0;
  std::uint64_t outstanding_sends_ = 0;
  std::uint64_t outstanding_writes_ = 0;  // receives and works
  bool aborted_ = false;
  bool restore_begun_ = false;
  bool transfer_failed_ = false;
  bool out_of_memory_ = false;
};

}  // namespace maypole::agent
