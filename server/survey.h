// Which links are measured when: a tournament in which every agent meets every other.
//
// Pure. Pairs come in the order of a round-robin tournament (circle method: one stands still, the
// others move on by a place each round), and one begins as soon as neither of the two is in another
// probe; so each agent is in one probe at a time. Of more than kRoundsMax + 1 nodes each meets
// kRoundsMax others.
// A pair in which an op was in flight is asked again, later and later. One that does not answer is
// not, until one of the two comes anew.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/time.h"
#include "server/links.h"

namespace maypole::server {

inline constexpr std::size_t kRoundsMax = 63;

class Survey {
 public:
  struct Probe {
    std::uint64_t id = 0;
    std::string measures;  // node
    std::string answers;
  };

  // `random` gives ids.
  explicit Survey(std::function<std::uint64_t()> random) : random_(std::move(random)) {}

  // An agent can be asked; what it has met before, it need not meet again.
  void Add(const std::string& node);
  // It cannot be asked any more; a probe of it is over.
  void Remove(const std::string& node);
  // It is another process now: all its links are to be measured anew.
  void Forget(const std::string& node);
  void ForgetAll();

  // What begins now; call it after every event and now and then.
  std::vector<Probe> Begin(TimePoint now);

  enum class Result : std::uint8_t { kOk, kBusy, kFailed };

  // Empty if no such probe runs, or `node` does not measure it.
  std::optional<LinkTable::Pair> End(std::uint64_t id,
                                     const std::string& node,
                                     Result result,
                                     TimePoint now);

  // Some of these nodes have not met yet and may any moment.
  bool IsPending(const std::set<std::string>& nodes) const;

 private:
  struct Waiting {
    LinkTable::Pair pair;
    std::uint32_t refused = 0;  // times that an op was in flight
    TimePoint due{};            // not before
  };

  struct Running {
    Waiting waiting;
    TimePoint began;
  };

  void Pair();
  void Finish(std::map<std::uint64_t, Running>::iterator running);

  std::function<std::uint64_t()> random_;
  std::set<std::string> nodes_;
  std::set<std::string> busy_;  // in a probe
  std::set<LinkTable::Pair> met_;
  std::vector<Waiting> waiting_;  // in order of the tournament
  std::map<std::uint64_t, Running> running_;
  bool changed_ = false;
};

}  // namespace maypole::server
