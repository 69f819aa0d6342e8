// Which op a token belongs to. A live execution has a serial, which is the upper part of its
// tokens. Serials go round, since an agent that lives for weeks runs more ops than there are
// serials.
//
// Pure.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "agent/engine/events.h"
#include "agent/engine/execution.h"
#include "agent/engine/matching.h"
#include "common/ids.h"

namespace maypole::agent {

class ExecutionTable {
 public:
  struct Owner {
    JobToken job{0};
    OpKey op;
  };

  static constexpr std::uint64_t kSerials = kShellTokens >> Execution::kTokenBits;

  // `serials`: more than executions live at a time, plus 1.
  explicit ExecutionTable(std::uint64_t serials = kSerials) : serials_(serials) {}

  // Returns the first token of a new execution; the next 2^kTokenBits - 1 are its too.
  std::uint64_t Add(JobToken job, const OpKey& op) {
    do {
      last_serial_ = (last_serial_ + 1) % serials_;
    } while (last_serial_ == 0 || owners_.contains(last_serial_));  // token 0 is nobody's
    owners_[last_serial_] = {job, op};
    return last_serial_ << Execution::kTokenBits;
  }

  void Remove(std::uint64_t first_token) { owners_.erase(first_token >> Execution::kTokenBits); }

  // Nothing else runs, and nothing was begun since: `first_token`'s execution had the agent to
  // itself if this is so when it begins and when it ends.
  bool IsAlone(std::uint64_t first_token) const {
    return owners_.size() == 1 && last_serial_ == first_token >> Execution::kTokenBits;
  }

  // Null for a token of the shell, and of an execution that has ended.
  const Owner* Find(std::uint64_t token) const {
    const auto owner = owners_.find(token >> Execution::kTokenBits);
    return owner == owners_.end() ? nullptr : &owner->second;
  }

 private:
  std::uint64_t serials_;
  std::uint64_t last_serial_ = 0;
  std::unordered_map<std::uint64_t, Owner> owners_;
};

}  // namespace maypole::agent
