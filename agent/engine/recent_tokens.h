// The last jobs of which something is worth remembering, at most kTokensMax of them. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>

#include "common/ids.h"

namespace maypole::agent {

class RecentTokens {
 public:
  void Add(JobToken token) {
    if (!Contains(token)) {
      tokens_.push_back(token);
    }
    if (tokens_.size() > kTokensMax) {
      tokens_.pop_front();
    }
  }

  bool Contains(JobToken token) const {
    return std::find(tokens_.begin(), tokens_.end(), token) != tokens_.end();
  }

 private:
  static constexpr std::size_t kTokensMax = 1024;

  std::deque<JobToken> tokens_;  // oldest first
};

}  // namespace maypole::agent
