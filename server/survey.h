// Which links are measured when: a tournament in which every agent meets every other.
//
// Pure. Pairs come in the order of a round-robin tournament (circle method: one stands still, the
// others move on by a place each round), and one begins as soon as neither of the two is in another
// probe; so each agent is in one probe at a time. Of more than kRoundsMax + 1 nodes each meets
// kRoundsMax others, and those of a job that waits meet each other first.
// A pair in which an op was in flight is asked again, later and later. One that does not answer is
// not, until one of the two comes anew.
//
// Cost: an event looks at the pairs of the two nodes that became free. Who meets whom is drawn anew
// when nodes come or go; of many nodes at most once in kDrawEvery, as it looks at all pairs.
#pragma once

#include <cstdint>
#include <deque>
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
inline constexpr Duration kDrawEvery = std::chrono::seconds(1);

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
  // It was removed for good: if it comes again, it is another process, and meets everybody anew.
  void Forget(const std::string& node);
  void ForgetAll();
  // Those of them that can be asked and have not met, at most kRoundsMax each, meet next.
  void Prefer(const std::set<std::string>& nodes);

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
  using Id = std::uint32_t;  // index into nodes_

  struct Meeting {
    std::uint32_t order = 0;    // the lowest first
    std::uint32_t refused = 0;  // times that an op was in flight
    TimePoint due{};            // not before
  };

  struct Node {
    std::string name;
    bool is_here = false;
    std::uint64_t probe = 0;  // 0: none
    std::set<Id> met;
    std::map<Id, Meeting> awaits;  // held by both

    bool is_free() const { return is_here && probe == 0; }
  };

  struct Running {
    Id measures = 0;
    Id answers = 0;
    Meeting meeting;
  };

  Id IdOf(const std::string& node);
  std::vector<Id> Here(const std::set<std::string>& nodes) const;
  // They have neither met nor are about to.
  bool MayMeet(Id a, Id b) const;
  void Await(Id a, Id b, const Meeting& meeting);
  void Draw(TimePoint now);
  Probe Start(Id a, Id b, TimePoint now);
  void SetMet(Id a, Id b);
  void Finish(std::map<std::uint64_t, Running>::iterator running);

  std::function<std::uint64_t()> random_;
  std::map<std::string, Id> ids_;
  std::vector<Node> nodes_;    // here, or removed and not forgotten
  std::vector<Id> forgotten_;  // to be used again
  std::size_t here_ = 0;
  std::set<Id> freed_;  // whose pairs have to be looked at
  std::multimap<TimePoint, Id> due_;
  std::map<std::uint64_t, Running> running_;
  std::deque<std::pair<TimePoint, std::uint64_t>> began_;  // probes, oldest first
  bool changed_ = false;
  TimePoint drawn_{};
};

}  // namespace maypole::server
