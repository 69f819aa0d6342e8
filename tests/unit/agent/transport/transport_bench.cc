// What the UCX adapter costs, between two processes on the loopback interface: time of a frame
// there, and the rate of a stream of frames, two in flight. Compare with ucx_perftest -t ucp_am_lat
// / ucp_am_bw under UCX_TLS=tcp UCX_NET_DEVICES=lo.
//
//   transport_bench [device]
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "agent/transport/ucx/process.h"
#include "agent/transport/ucx/ucx_transport.h"
#include "common/check.h"

namespace maypole::agent {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTrips = 20000;
constexpr int kTripsWarmUp = 1000;
constexpr int kWindow = 2;

// One of the two ends; both do everything by turns.
class End {
 public:
  End(const std::string& device, int fd) : buffer_(8 << 20) {
    UcxTransportOptions options;
    options.devices = device;
    options.port = 0;
    auto transport = UcxTransport::Create(options);
    if (!transport.ok()) {
      std::cerr << transport.status() << '\n';
      std::exit(1);
    }
    transport_ = *std::move(transport);
    const std::string mine = transport_->Address();
    MAYPOLE_CHECK(::send(fd, mine.data(), mine.size(), 0) > 0);
    std::string theirs(4096, '\0');
    const ssize_t bytes = ::recv(fd, theirs.data(), theirs.size(), 0);
    MAYPOLE_CHECK(bytes > 0);
    theirs.resize(static_cast<std::size_t>(bytes));
    MAYPOLE_CHECK(transport_->Connect(1, theirs).ok());
  }

  void Send(std::uint64_t bytes) {
    FrameHeader header;
    header.payload_bytes = bytes;
    transport_->Send(1, header, {MemoryKind::kHost, buffer_.data(), bytes}, 1);
  }

  // Until that many more frames were received and sends are done. What comes beyond counts for the
  // next call.
  void Await(int arrivals, int sends) {
    arrivals_ -= arrivals;
    sends_ -= sends;
    while (arrivals_ < 0 || sends_ < 0) {
      events_.clear();
      transport_->Poll(events_);
      for (const TransportEvent& event : events_) {
        MAYPOLE_CHECK(event.ok && event.kind != TransportEvent::Kind::kPeerLost);
        if (event.kind == TransportEvent::Kind::kSendDone) {
          ++sends_;
        } else if (event.kind == TransportEvent::Kind::kReceiveDone || event.arrival == 0) {
          ++arrivals_;
        } else {
          transport_->Receive(
              event.arrival, {MemoryKind::kHost, buffer_.data(), event.header.payload_bytes}, 2);
        }
      }
    }
  }

  void Stream(std::uint64_t bytes, int frames) {
    int started = 0;
    for (; started < std::min(kWindow, frames); ++started) {
      Send(bytes);
    }
    for (int done = 0; done < frames; ++done) {
      Await(0, 1);
      if (started < frames) {
        Send(bytes);
        ++started;
      }
    }
    Await(1, 0);  // the other end's word that all has arrived
  }

 private:
  std::unique_ptr<UcxTransport> transport_;
  std::vector<std::byte> buffer_;
  std::vector<TransportEvent> events_;
  int arrivals_ = 0;
  int sends_ = 0;
};

int FramesOf(std::uint64_t bytes) {
  return static_cast<int>((std::uint64_t{2} << 30) / bytes);
}

const std::uint64_t kStreamBytes[] = {64 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20};

void Answer(End& end) {
  for (int i = 0; i < kTrips + kTripsWarmUp; ++i) {
    end.Await(1, 0);
    end.Send(0);
    end.Await(0, 1);
  }
  for (const std::uint64_t bytes : kStreamBytes) {
    end.Await(FramesOf(bytes), 0);
    end.Send(0);
    end.Await(0, 1);
  }
}

void Ask(End& end) {
  const auto trip = [&] {
    end.Send(0);
    end.Await(1, 1);
  };
  for (int i = 0; i < kTripsWarmUp; ++i) {
    trip();
  }
  std::vector<double> times;
  for (int i = 0; i < kTrips; ++i) {
    const auto start = Clock::now();
    trip();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / 2);
  }
  std::ranges::sort(times);
  std::printf("header only, one way: p50 %.2f us, p99 %.2f us\n",
              times[times.size() / 2],
              times[times.size() * 99 / 100]);
  for (const std::uint64_t bytes : kStreamBytes) {
    const auto start = Clock::now();
    end.Stream(bytes, FramesOf(bytes));
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::printf("%8llu B frames: %.2f GB/s\n",
                static_cast<unsigned long long>(bytes),
                static_cast<double>(bytes) * FramesOf(bytes) / seconds / 1e9);
  }
}

}  // namespace
}  // namespace maypole::agent

int main(int argc, char** argv) {
  using namespace maypole::agent;
  ReclaimProcessFromUcx();
  const std::string device = argc > 1 ? argv[1] : "lo";
  int pair[2];
  MAYPOLE_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
  const pid_t child = ::fork();  // before UCX has a thread
  End end(device, pair[child == 0 ? 1 : 0]);
  if (child == 0) {
    Answer(end);
    char word = 0;
    ::close(pair[0]);
    MAYPOLE_CHECK(::recv(pair[1], &word, 1, 0) == 0);  // the other end is done
    return 0;
  }
  Ask(end);
  ::close(pair[0]);
  ::close(pair[1]);
  return ::waitpid(child, nullptr, 0) == child ? 0 : 1;
}
