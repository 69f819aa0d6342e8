// The executions of all members of one op, with a hand that delivers: frames, payloads and works
// wait here until somebody picks them.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "agent/engine/execution.h"
#include "agent/reduce/work.h"
#include "collective/make.h"
#include "gtest/gtest.h"
#include "tests/sim/reference.h"
#include "tests/sim/sim_memory.h"

namespace maypole::agent {

class ExecutionGroup {
 public:
  static constexpr std::uint64_t kTokenBase = std::uint64_t{5} << Execution::kTokenBits;

  enum class Place { kInPlace, kOverwrite, kShared };

  // An all-reduce among `ranks` ranks on each of `members` agents.
  ExecutionGroup(collective::Algorithm algorithm,
                 sim::OpSpec op,
                 std::uint32_t members,
                 std::uint32_t ranks,
                 Place place,
                 std::uint32_t seed)
      : op_(std::move(op)), random_(seed), inputs_(seed) {
    op_.algorithm = algorithm;
    for (std::uint32_t m = 0; m < members; ++m) {
      Member_& member = members_.emplace_back();
      ExecutionSpec spec;
      spec.plan = std::make_shared<Plan>(
          collective::MakeSchedule(algorithm,
                                   {.members = members,
                                    .self = Member(m),
                                    .elements = op_.elements,
                                    .slice_elements = 4,
                                    .levels = algorithm == collective::Algorithm::kHierarchical
                                                  ? LevelsOf(members)
                                                  : std::vector<collective::Level>()}));
      spec.dtype = op_.dtype;
      spec.reduction = op_.reduction;
      spec.world_size = members * ranks;
      for (std::uint32_t r = 0; r < ranks; ++r) {
        auto& tensor =
            member.tensors.emplace_back(sim::MakeInput(inputs_, op_.dtype, op_.elements));
        auto& copy = member.copies.emplace_back(std::make_unique<sim::Bytes>(tensor->size()));
        std::memcpy(copy->data(), tensor->data(), copy->size());
        spec.locals.push_back({.input = tensor->view(),
                               .output = place != Place::kShared ? tensor->view() : BufferView{},
                               .restorable = place == Place::kInPlace});
      }
      if (place == Place::kShared) {
        member.shared = memory_.AllocateResult(JobToken(1), member.copies[0]->size());
        spec.shared_result = member.shared->view;
      }
      member.execution = std::make_unique<Execution>(std::move(spec), kTokenBase, memory_);
    }
    for (std::uint32_t m = 0; m < members; ++m) {
      ExecutionOutput out;
      members_[m].execution->Start(out);
      Take(m, out);
    }
  }

  // Does one of the things that wait, at random. False if nothing does.
  bool StepOnce() {
    if (pending_.empty()) {
      return false;
    }
    std::swap(pending_[random_() % pending_.size()], pending_.back());
    const auto what = std::move(pending_.back());
    pending_.pop_back();
    what();
    return true;
  }

  Execution& execution(std::uint32_t member) { return *members_[member].execution; }

  void Abort(std::uint32_t member) {
    ExecutionOutput out;
    execution(member).Abort(out);
    Take(member, out);
  }

  // As they were submitted.
  sim::Inputs inputs() const {
    sim::Inputs inputs;
    for (const Member_& member : members_) {
      auto& of_member = inputs.emplace_back();
      for (const auto& copy : member.copies) {
        of_member.push_back(copy.get());
      }
    }
    return inputs;
  }

  // What the first rank got, in place.
  const std::byte* result() const { return members_[0].tensors[0]->data(); }

  void ExpectResults() {
    const std::vector<std::byte> expected = sim::ExpectedAllReduce(op_, inputs());
    for (const Member_& member : members_) {
      EXPECT_TRUE(member.execution->Succeeded());
      for (std::size_t r = 0; r < member.tensors.size(); ++r) {
        const std::byte* result =
            member.shared ? member.shared->view.address : member.tensors[r]->data();
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), result)) << "rank " << r;
        EXPECT_TRUE(!member.shared || *member.tensors[r] == *member.copies[r]);
      }
    }
  }

  bool InputsAreAsSubmitted(std::uint32_t member) const {
    const Member_& of = members_[member];
    return std::equal(
        of.tensors.begin(), of.tensors.end(), of.copies.begin(), [](auto& a, auto& b) {
          return *a == *b;
        });
  }

  std::size_t scratch_in_use() {
    for (Member_& member : members_) {
      member.execution.reset();
    }
    return memory_.scratch_in_use();
  }

  std::size_t sends_waiting() const { return sends_.size(); }

 private:
  struct Member_ {
    std::unique_ptr<Execution> execution;
    std::vector<std::unique_ptr<sim::Bytes>> tensors;
    std::vector<std::unique_ptr<sim::Bytes>> copies;
    std::optional<SharedResult> shared;
  };

  // Halves, of which the second may be larger, and the two of them.
  static std::vector<collective::Level> LevelsOf(std::uint32_t members) {
    return {{{members / 2, members - members / 2}, collective::Algorithm::kRing},
            {{2}, collective::Algorithm::kTree}};
  }

  struct Sent {
    std::uint32_t from = 0;
    QueuedSend send;
    std::vector<std::byte> eager;  // what the transport took along; empty: the receiver fetches it
  };

  void Take(std::uint32_t m, ExecutionOutput& out) {
    for (const QueuedSend& send : out.sends) {
      const ArrivalId arrival = next_arrival_++;
      Sent& sent = sends_[arrival] = {m, send, {}};
      if (random_() % 2 == 0) {
        const std::byte* begin = send.payload.address;
        sent.eager.assign(begin, begin + send.payload.bytes);
        pending_.emplace_back([this, m, token = send.token] { Done(m, token); });
      }
      pending_.emplace_back([this, m, send, arrival] {
        ExecutionOutput more;
        const std::uint32_t to = send.peer.value();
        EXPECT_TRUE(execution(to).OnArrival(
            Member(m), send.ordinal, {arrival, send.payload.bytes, sends_[arrival].eager}, more));
        Take(to, more);
      });
    }
    for (const Action& action : out.actions) {
      if (const auto* work = std::get_if<RunWork>(&action)) {
        pending_.emplace_back([this, m, work = *work] {
          ReduceReference(work.work);
          Done(m, work.token);
        });
      } else if (const auto* receive = std::get_if<ReceivePayload>(&action)) {
        pending_.emplace_back([this, m, receive = *receive] {
          const Sent sent = Taken(receive.arrival);
          ASSERT_EQ(receive.target.bytes, sent.send.payload.bytes);
          const std::byte* bytes =
              sent.eager.empty() ? sent.send.payload.address : sent.eager.data();
          std::memcpy(receive.target.address, bytes, receive.target.bytes);
          Done(m, receive.token);
          EndFetched(sent);
        });
      } else if (const auto* drop = std::get_if<DropPayload>(&action)) {
        pending_.emplace_back([this, arrival = drop->arrival] { EndFetched(Taken(arrival)); });
      }
    }
  }

  Sent Taken(ArrivalId arrival) {
    EXPECT_TRUE(sends_.contains(arrival)) << "taken twice";
    Sent sent = std::move(sends_[arrival]);
    sends_.erase(arrival);
    return sent;
  }

  void EndFetched(const Sent& sent) {
    if (sent.eager.empty()) {
      Done(sent.from, sent.send.token);
    }
  }

  void Done(std::uint32_t m, std::uint64_t token) {
    ExecutionOutput out;
    execution(m).OnTokenDone(token, true, out);
    Take(m, out);
  }

  sim::OpSpec op_;
  std::mt19937 random_;
  sim::Random inputs_;
  sim::Regions regions_;
  sim::SimMemory memory_{regions_};
  std::vector<Member_> members_;
  std::vector<std::function<void()>> pending_;
  std::map<ArrivalId, Sent> sends_;
  ArrivalId next_arrival_ = 1;
};

}  // namespace maypole::agent
