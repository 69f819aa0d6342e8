// The words in which the coordinator's sentences speak of jobs and ranks. Pure. Internal to
// this folder.
#pragma once

#include <string>
#include <vector>

#include "common/ids.h"

namespace maypole::server {

std::string Quoted(const std::string& name);

// job "train"
std::string JobText(const std::string& name);

// "rank 3", "ranks 2, 3 and 12 more".
std::string RankText(const std::vector<Rank>& ranks);

// "2,3", all of them.
std::string RankList(const std::vector<Rank>& ranks);

}  // namespace maypole::server
