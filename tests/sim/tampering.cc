// Actions changed on their way out of a core, as a faulty core would have them.

#include <algorithm>
#include <utility>

#include "tests/sim/sim_cluster.h"

namespace maypole::sim {

void SimCluster::Tamper(std::vector<agent::Action>& actions) {
  if (std::exchange(tampering_.corrupt_payload, false)) {
    network_->CorruptOnePayload();
  }
  const auto find = [&](auto wanted) {
    return std::find_if(actions.begin(), actions.end(), wanted);
  };
  const auto completion = find([](const agent::Action& action) {
    return std::holds_alternative<agent::CompleteOp>(action);
  });
  if (completion != actions.end()) {
    auto& done = std::get<agent::CompleteOp>(*completion);
    if (done.outcome.code == ErrorCode::kMismatch &&
        std::exchange(tampering_.other_mismatch_text, false)) {
      done.outcome.text += " or so";
    }
    if (std::exchange(tampering_.double_completion, false)) {
      actions.insert(completion, agent::Action(*completion));
    } else if (std::exchange(tampering_.drop_completion, false)) {
      actions.erase(completion);
    }
  }
  const auto release = find([](const agent::Action& action) {
    return std::holds_alternative<agent::ReleaseSession>(action);
  });
  if (release != actions.end() && std::exchange(tampering_.drop_release, false)) {
    actions.erase(release);
  }
  // The first that is summed for anybody: at that moment no op of several slices is done.
  const auto work = find(
      [](const agent::Action& action) { return std::holds_alternative<agent::RunWork>(action); });
  if (work != actions.end() && tampering_.complete_early) {
    for (SimRank& rank : ranks_) {
      if (!rank.slots.empty() && std::exchange(tampering_.complete_early, false)) {
        actions.emplace_back(agent::CompleteOp{rank.session, rank.slots.begin()->first, {}, {}});
        break;
      }
    }
  }
}

}  // namespace maypole::sim
