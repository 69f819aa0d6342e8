#include "server/text.h"

#include "proto/handshake.h"
#include "proto/text.h"

namespace maypole::server {
namespace {

constexpr std::size_t kRanksInText = 16;

}  // namespace

std::string Quoted(const std::string& name) {
  return "\"" + std::string(CutUtf8(name, kJobNameBytesMax)) + "\"";
}

std::string JobText(const std::string& name) {
  return "job " + Quoted(name);
}

std::string RankText(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size() && i < kRanksInText; ++i) {
    text += (i == 0 ? " " : ", ") + std::to_string(ranks[i].value());
  }
  if (ranks.size() > kRanksInText) {
    text += " and " + std::to_string(ranks.size() - kRanksInText) + " more";
  }
  return text;
}

std::string RankList(const std::vector<Rank>& ranks) {
  std::string list;
  for (Rank rank : ranks) {
    list += (list.empty() ? "" : ",") + std::to_string(rank.value());
  }
  return list;
}

}  // namespace maypole::server
