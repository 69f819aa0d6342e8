// Short words for what the tests with real sessions do most.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "maypole/client.h"

namespace maypole::test {

using client::Op;
using client::OpOptions;
using client::Session;

// The error that `call` throws, or empty.
template <typename Call>
std::optional<client::Error> ErrorOf(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const client::Error& error) {
    return error;
  }
  return std::nullopt;
}

// status, text and culprits of what `call` throws: "peer lost: ... [ranks=1;hosts=x]", or "ok".
template <typename Call>
std::string TextOfError(Call&& call) {
  const auto error = ErrorOf(std::forward<Call>(call));
  return error ? std::string(maypole_status_name(error->status())) + ": " + error->what() + " [" +
                     error->culprits() + "]"
               : "ok";
}

// One tensor per rank in session memory, filled with rank + 1.
inline std::vector<std::span<float>> Tensors(std::vector<Session>& sessions, std::size_t count) {
  std::vector<std::span<float>> tensors;
  for (Session& session : sessions) {
    tensors.push_back(session.Allocate<float>(count));
    std::fill(tensors.back().begin(), tensors.back().end(), static_cast<float>(tensors.size()));
  }
  return tensors;
}

// Submits the op on all ranks.
inline std::vector<Op> SubmitAll(std::vector<Session>& sessions,
                                 const std::vector<std::span<float>>& tensors,
                                 const OpOptions& options = {}) {
  std::vector<Op> ops;
  for (std::size_t rank = 0; rank < sessions.size(); ++rank) {
    ops.push_back(sessions[rank].AllReduce(tensors[rank], options));
  }
  return ops;
}

// One all-reduce over all ranks; the texts of its errors by rank, "ok" where there is none.
inline std::vector<std::string> AllReduceAll(std::vector<Session>& sessions,
                                             const std::vector<std::span<float>>& tensors,
                                             const OpOptions& options = {}) {
  std::vector<std::string> texts;
  std::vector<Op> ops = SubmitAll(sessions, tensors, options);
  for (Op& op : ops) {
    texts.push_back(TextOfError([&] { op.Wait(); }));
  }
  return texts;
}

// 1 + 2 + ... + ranks: each element of an all-reduced sum of Tensors().
inline float SumOfRanks(std::size_t ranks) {
  return static_cast<float>(ranks * (ranks + 1)) / 2;
}

}  // namespace maypole::test
