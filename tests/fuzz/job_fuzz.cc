// What another member of a job may send: frames whose headers are of the job, in any order, with
// any body. The agent lives, no arrival is answered twice, and nothing is left once the ranks have
// gone.
#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "agent/engine/agent_core.h"
#include "agent/engine/matching.h"
#include "proto/announce.h"
#include "tests/fuzz/fuzz.h"
#include "tests/sim/sim_memory.h"
#include "tests/sim/workload.h"

namespace {

using namespace maypole;         // NOLINT(google-build-using-namespace)
using namespace maypole::agent;  // NOLINT(google-build-using-namespace)
using maypole::fuzz::Require;

constexpr JobToken kToken{4711};
constexpr SessionId kSession = 10;  // of rank 0; rank 1 follows
constexpr ElementCount kElements = 64;

Submission MakeOp(std::uint32_t rank, collective::Collective collective) {
  return {.session = kSession + rank,
          .name = "x",
          .collective = collective,
          .elements = kElements,
          .peer = Rank(2)};
}

// Node "a" with ranks 0 and 1, which have submitted an all-reduce and a send/receive to rank 2, one
// of four on the members "b" and "c".
class Node {
 public:
  Node() : core_(Options(), memory_) {
    core_.OnControl(CoordinatorLink{true, "attached"}, now_);
    for (std::uint32_t rank : {0U, 1U}) {
      core_.OnClient(ClientHello{kSession + rank, "job", Rank(rank), 6, 1, Duration(0)}, now_);
    }
    core_.OnControl(EpochInfo{.job = "job",
                              .token = kToken,
                              .epoch = Epoch(1),
                              .world_size = 6,
                              .members = {{"b", 2, "host-b", "1", {Rank(2), Rank(3)}},
                                          {"a", 1, "host-a", "0", {Rank(0), Rank(1)}},
                                          {"c", 3, "host-c", "2", {Rank(4), Rank(5)}}},
                              .reason = {}},
                    now_);
    Submit(MakeOp(0, collective::Collective::kAllReduce));
    Submit(MakeOp(1, collective::Collective::kAllReduce));
    Submit(MakeOp(0, collective::Collective::kSendReceive));
    Settle();
  }

  void Arrive(FrameHeader header, std::span<const std::byte> body) {
    TransportEvent event;
    event.header = header;
    if (header.payload_bytes > 0) {
      event.arrival = ++last_arrival_;
      arrivals_.insert(event.arrival);
      event.inline_payload = body;
    }
    core_.OnTransport(event, now_);
    Settle();
  }

  void End() {
    for (const SessionId session : {kSession, kSession + 1}) {
      core_.OnClient(ClientGone{session, true, "died"}, now_);
      Settle();
    }
    for (const PeerId peer : peers_) {
      TransportEvent lost;
      lost.kind = TransportEvent::Kind::kPeerLost;
      lost.peer = peer;
      core_.OnTransport(lost, now_);
      Settle();
    }
    Require(core_.Epochs().empty() && !core_.Busy(), "the job ends with its ranks");
    Require(arrivals_.empty(), "every arrival is received or dropped");
    Require(memory_.scratch_in_use() == 0, "no scratch is left");
  }

 private:
  static CoreOptions Options() {
    CoreOptions options;
    options.node = "a";
    options.incarnation = 1;
    return options;
  }

  void Submit(Submission submission) {
    tensors_.push_back(std::make_unique<sim::Bytes>(kElements * sizeof(float)));
    submission.slot = static_cast<std::uint32_t>(tensors_.size());
    submission.tensor = tensors_.back()->view();
    core_.OnClient(std::move(submission), now_);
  }

  // The other side of everything: sends, receives and works end at once.
  void Settle() {
    for (std::vector<Action> actions = core_.TakeActions(); !actions.empty();
         actions = core_.TakeActions()) {
      for (const Action& action : actions) {
        if (const auto* send = std::get_if<SendFrame>(&action);
            send != nullptr && send->token != 0) {
          Answer(TransportEvent::Kind::kSendDone, send->token);
        } else if (const auto* receive = std::get_if<ReceivePayload>(&action)) {
          Require(arrivals_.erase(receive->arrival) == 1, "an arrival is answered once");
          Answer(TransportEvent::Kind::kReceiveDone, receive->token);
        } else if (const auto* drop = std::get_if<DropPayload>(&action)) {
          Require(arrivals_.erase(drop->arrival) == 1, "an arrival is answered once");
        } else if (const auto* connect = std::get_if<ConnectPeer>(&action)) {
          peers_.push_back(connect->peer);
        } else if (const auto* run = std::get_if<RunWork>(&action)) {
          core_.OnWorkDone(run->token, now_);
        }
      }
    }
  }

  void Answer(TransportEvent::Kind kind, TransferToken token) {
    TransportEvent event;
    event.kind = kind;
    event.ok = true;
    event.token = token;
    core_.OnTransport(event, now_);
  }

  const TimePoint now_{std::chrono::hours(5)};
  sim::Regions regions_;
  sim::SimMemory memory_{regions_};
  std::deque<std::unique_ptr<sim::Bytes>> tensors_;
  std::set<ArrivalId> arrivals_;
  ArrivalId last_arrival_ = 0;
  std::vector<PeerId> peers_;
  AgentCore core_;
};

// A frame of the input: header, body.
void Append(FrameHeader header, const std::vector<std::byte>& body, fuzz::Bytes& bytes) {
  header.payload_bytes = body.size();
  const fuzz::Bytes head = fuzz::BytesOf(header);
  bytes.insert(bytes.end(), head.begin(), head.end());
  const auto* first = reinterpret_cast<const std::uint8_t*>(body.data());
  bytes.insert(bytes.end(), first, first + body.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = std::as_bytes(std::span(data, size));
  Node node;
  while (bytes.size() >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    bytes = bytes.subspan(sizeof(header));
    header.token = kToken.value();
    header.epoch = 1;
    header.payload_bytes = std::min<std::uint64_t>(header.payload_bytes, bytes.size());
    node.Arrive(header, bytes.first(header.payload_bytes));
    bytes = bytes.subspan(header.payload_bytes);
  }
  node.End();
  return 0;
}

std::vector<maypole::fuzz::Bytes> maypole::fuzz::Seeds() {
  const auto header_of = [](FrameKind kind, std::uint32_t sender, const Submission& op) {
    FrameHeader header;
    header.kind = kind;
    header.sender = sender;
    header.op = HashOf(op);
    return header;
  };
  const auto announce_of = [](const Submission& op, std::vector<Rank> ranks) {
    return EncodeAnnounce({.name = "x",
                           .algorithm = static_cast<std::uint8_t>(collective::Algorithm::kRing),
                           .slice_bytes = 4096,
                           .groups = {{ShapeOf(op), std::move(ranks)}}});
  };
  const Submission sum = MakeOp(0, collective::Collective::kAllReduce);
  const Submission pair = MakeOp(0, collective::Collective::kSendReceive);
  std::vector<Bytes> seeds(3);
  Append(header_of(FrameKind::kAnnounce, 0, sum), announce_of(sum, {Rank(2), Rank(3)}), seeds[0]);
  Append(header_of(FrameKind::kAnnounce, 2, sum), announce_of(sum, {Rank(4), Rank(5)}), seeds[0]);
  for (std::uint32_t ordinal = 0; ordinal < 4; ++ordinal) {
    FrameHeader header = header_of(FrameKind::kData, 0, sum);
    header.ordinal = ordinal;
    Append(header, std::vector<std::byte>(22 * sizeof(float)), seeds[0]);
  }
  Append(header_of(FrameKind::kAnnounce, 0, pair), announce_of(pair, {Rank(2)}), seeds[1]);
  Append(header_of(FrameKind::kAnnounce, 2, pair), announce_of(pair, {Rank(4)}), seeds[1]);
  Submission other = pair;
  other.root = Rank(3);
  Append(header_of(FrameKind::kAnnounce, 0, pair), announce_of(other, {Rank(3)}), seeds[1]);
  const std::vector<std::byte> outcome = EncodeOutcome({ErrorCode::kTimeout, "late", ""});
  Append(header_of(FrameKind::kAbort, 0, pair), outcome, seeds[2]);
  Append(header_of(FrameKind::kJobFailed, 2, pair), outcome, seeds[2]);
  return seeds;
}
