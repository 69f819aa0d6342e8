// What another agent may send: a frame's header, and the bodies of control frames. What is decoded
// encodes to the same bytes.
#include <algorithm>
#include <span>

#include "proto/announce.h"
#include "proto/frame.h"
#include "tests/fuzz/fuzz.h"

namespace {

using maypole::fuzz::Require;

bool Equals(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto header = maypole::DecodeFrameHeader(bytes)) {
    Require(std::memcmp(&*header, data, size) == 0, "a header is taken over as it is");
  }
  if (const auto announce = maypole::DecodeAnnounce(bytes)) {
    Require(Equals(maypole::EncodeAnnounce(*announce), bytes), "an announce has one encoding");
  }
  if (const auto outcome = maypole::DecodeOutcome(bytes)) {
    Require(Equals(maypole::EncodeOutcome(*outcome), bytes), "an outcome has one encoding");
  }
  return 0;
}

std::vector<maypole::fuzz::Bytes> maypole::fuzz::Seeds() {
  const auto to_bytes = [](const std::vector<std::byte>& encoded) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(encoded.data());
    return Bytes(first, first + encoded.size());
  };
  Announce announce;
  announce.name = "layer1";
  announce.algorithm = 1;
  announce.slice_bytes = 1 << 18;
  announce.groups = {{{0, DType::kF32, Reduction::kSum, 0, 1000}, {Rank(0), Rank(1)}},
                     {{0, DType::kF16, Reduction::kMean, 1, 1000}, {Rank(2)}, {900, 100}}};
  return {BytesOf(FrameHeader{}),
          to_bytes(EncodeAnnounce(announce)),
          to_bytes(EncodeOutcome({ErrorCode::kPeerLost, "rank 3 died", "ranks=3"}))};
}
