// Where libFuzzer is not at hand: seeded mutations of the seeds, and replay of files.
//
//   x_fuzz [ITERATIONS [SEED]]     an input that breaks a promise is left in x_fuzz.crash
//   x_fuzz FILE...                 replays
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "tests/fuzz/fuzz.h"

namespace {

using maypole::fuzz::Bytes;

constexpr std::size_t kInputBytesMax = 4096;

std::optional<std::uint64_t> Number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

// One of the changes that parsers stumble over: bits, interesting numbers at any place, cuts,
// growth, splices.
void Mutate(Bytes& bytes, const std::vector<Bytes>& seeds, std::mt19937_64& random) {
  static constexpr std::uint64_t kInteresting[] = {0,
                                                   1,
                                                   2,
                                                   7,
                                                   127,
                                                   128,
                                                   255,
                                                   256,
                                                   1023,
                                                   1024,
                                                   2048,
                                                   0x7fffffff,
                                                   0x80000000,
                                                   0xffffffff,
                                                   ~0ull,
                                                   1ull << 62,
                                                   1ull << 63};
  const std::size_t place = bytes.empty() ? 0 : random() % bytes.size();
  switch (bytes.empty() ? 3 : random() % 6) {
    case 0:
      bytes[place] ^= static_cast<std::uint8_t>(1u << (random() % 8));
      break;
    case 1:
      bytes[place] = static_cast<std::uint8_t>(random());
      break;
    case 2: {
      const std::uint64_t value = kInteresting[random() % std::size(kInteresting)];
      const std::size_t width =
          std::min<std::size_t>(std::size_t{1} << (random() % 4), bytes.size() - place);
      std::memcpy(bytes.data() + place, &value, width);
      break;
    }
    case 3:
      bytes.resize(random() % kInputBytesMax);
      break;
    case 4:
      bytes.resize(place);
      break;
    default: {
      const Bytes& other = seeds[random() % seeds.size()];
      const std::size_t count = std::min(other.size(), bytes.size() - place);
      std::copy_n(other.begin(), count, bytes.begin() + static_cast<std::ptrdiff_t>(place));
    }
  }
}

Bytes ReadFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// The input under test; written out by OnAbort, so that a finding can be replayed.
Bytes g_input;
std::string g_crash_path;

void OnAbort(int) {
  std::ofstream(g_crash_path, std::ios::binary)
      .write(reinterpret_cast<const char*>(g_input.data()),
             static_cast<std::streamsize>(g_input.size()));
  std::_Exit(1);
}

void Run(Bytes input) {
  g_input = std::move(input);
  LLVMFuzzerTestOneInput(g_input.data(), g_input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && !Number(argv[1])) {
    for (int i = 1; i < argc; ++i) {
      Run(ReadFile(argv[i]));
    }
    return 0;
  }
  const std::uint64_t iterations = argc > 1 ? *Number(argv[1]) : 100'000;
  const std::uint64_t seed = argc > 2 ? Number(argv[2]).value_or(1) : 1;
  const std::vector<Bytes> seeds = maypole::fuzz::Seeds();
  std::mt19937_64 random(seed);
  g_crash_path = std::string(argv[0]) + ".crash";
  std::signal(SIGABRT, OnAbort);
  std::signal(SIGSEGV, OnAbort);
  for (std::uint64_t i = 0; i < iterations; ++i) {
    Bytes bytes = seeds[random() % seeds.size()];
    for (std::uint64_t changes = random() % 6; changes > 0; --changes) {
      Mutate(bytes, seeds, random);
    }
    Run(std::move(bytes));
  }
  std::printf("%llu inputs from seed %llu kept every promise\n",
              static_cast<unsigned long long>(iterations),
              static_cast<unsigned long long>(seed));
  return 0;
}
