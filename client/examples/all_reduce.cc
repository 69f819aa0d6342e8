// Every rank averages a gradient with all others and checks the answer. No training: the gradient
// of rank r is r + 1 everywhere.
//
//   maypole local --nodes 2 --ranks-per-node 2 -- maypole_example_all_reduce
#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>

#include "maypole/client.h"

namespace {

constexpr std::size_t kElements = 1'000'000;
constexpr int kSteps = 10;

// Returns the number of elements that are not `expected`.
std::ptrdiff_t CountWrong(std::span<const float> values, float expected) {
  return std::count_if(
      values.begin(), values.end(), [expected](float value) { return value != expected; });
}

int Train() {
  auto session = maypole::client::Session::Connect();  // MAYPOLE_SOCKET MAYPOLE_JOB RANK WORLD_SIZE
  const auto mine = static_cast<float>(session.rank() + 1);
  const auto mean = static_cast<float>(session.world_size() + 1) / 2;

  // Memory that the agent reads in place: nothing is copied on this side.
  std::span<float> weights = session.Allocate<float>(kElements);
  std::span<float> biases = session.Allocate<float>(kElements / 100);

  for (int step = 0; step < kSteps; ++step) {
    // A backward pass fills the last layer first. Its sum is under way while the rest is computed.
    std::fill(biases.begin(), biases.end(), mine);
    auto biases_summed =
        session.AllReduce(biases, {.reduction = MAYPOLE_MEAN, .name = "biases", .overwrite = true});
    std::fill(weights.begin(), weights.end(), mine);
    auto weights_summed = session.AllReduce(
        weights, {.reduction = MAYPOLE_MEAN, .name = "weights", .priority = 1, .overwrite = true});

    weights_summed.Wait();
    biases_summed.Wait();
    const std::ptrdiff_t wrong = CountWrong(weights, mean) + CountWrong(biases, mean);
    if (wrong != 0) {
      std::fprintf(stderr, "step %d: %td elements are not %g\n", step, wrong, mean);
      return 1;
    }
  }
  std::printf("rank %lld of %lld: %d steps of %zu elements, each the mean of all ranks\n",
              static_cast<long long>(session.rank()),
              static_cast<long long>(session.world_size()),
              kSteps,
              weights.size() + biases.size());
  return 0;
}

}  // namespace

int main() {
  try {
    return Train();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
