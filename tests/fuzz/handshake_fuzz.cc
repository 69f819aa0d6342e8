// Packets of a stranger: the first one of a connection, and any later one.
#include <span>
#include <variant>

#include "agent/segment/handshake_reader.h"
#include "proto/segment_layout.h"
#include "proto/text.h"
#include "tests/fuzz/fuzz.h"

namespace {

using maypole::fuzz::Require;

void CheckHello(std::span<const std::byte> packet) {
  const auto read = maypole::agent::ReadHello(packet, "0.1.0");
  if (const auto* refusal = std::get_if<maypole::Outcome>(&read)) {
    Require(!refusal->ok() && maypole::IsPrintableUtf8(refusal->text),
            "a refusal says why, in print");
    return;
  }
  const auto& hello = std::get<maypole::agent::ClientHello>(read);
  Require(!hello.job.empty() && hello.job.size() <= maypole::kJobNameBytesMax &&
              maypole::IsPrintableUtf8(hello.job),
          "job names are printable");
  Require(hello.rank.value() < hello.world_size, "a rank is below the world size");
}

void CheckRequest(std::span<const std::byte> packet) {
  const auto read = maypole::agent::ReadRequest(packet);
  if (const auto* refusal = std::get_if<maypole::Outcome>(&read)) {
    Require(!refusal->ok() && maypole::IsPrintableUtf8(refusal->text),
            "a refusal says why, in print");
  } else {
    maypole::MessageHeader header;
    std::memcpy(&header, packet.data(), sizeof(header));
    Require(header.magic == maypole::kHandshakeMagic && header.bytes == packet.size(),
            "a request has its header");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto packet = std::as_bytes(std::span(data, size));
  CheckHello(packet);
  CheckRequest(packet);
  return 0;
}

std::vector<maypole::fuzz::Bytes> maypole::fuzz::Seeds() {
  auto hello = MakeMessage<Hello>(MessageKind::kHello, kClientProtocol);
  StoreText(hello.version, "0.1.0");
  hello.world_size = 4;
  hello.job_bytes = StoreText(hello.job, "digits");
  auto allocate = MakeMessage<AllocateRequest>(MessageKind::kAllocateRequest, kClientProtocol);
  allocate.bytes = 1 << 20;
  return {BytesOf(hello),
          BytesOf(allocate),
          BytesOf(MakeMessage<FreeRequest>(MessageKind::kFreeRequest, kClientProtocol)),
          BytesOf(MakeMessage<ResultRequest>(MessageKind::kResultRequest, kClientProtocol)),
          BytesOf(MakeMessage<StatsRequest>(MessageKind::kStatsRequest, kClientProtocol)),
          BytesOf(MakeMessage<Goodbye>(MessageKind::kGoodbye, kClientProtocol))};
}
