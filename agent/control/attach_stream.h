// One attempt at the Attach stream: a gRPC call from its start to its end. Internal to this folder.
//
// Threads: Send and Cancel from any; the owner's callbacks come on gRPC's threads, one at a time,
// on_done last.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace maypole::v1 {
class AgentMessage;
class CoordinatorMessage;
}  // namespace maypole::v1

namespace maypole::agent {

class AttachStream {
 public:
  struct Callbacks {
    std::function<void(const v1::CoordinatorMessage&)> on_message;
    // No callback follows. `reason` is gRPC's, for people.
    std::function<void(const std::string& reason)> on_done;
  };

  // Connects anew: nothing is shared with an earlier attempt, so a moved coordinator is found.
  static std::shared_ptr<AttachStream> Create(const std::string& coordinator, Callbacks callbacks);
  virtual ~AttachStream() = default;

  // Once: sends `hello`; callbacks come from now on, perhaps before it returns. on_done comes even
  // if nobody is there. The stream must live until on_done has been called.
  virtual void Begin(const v1::AgentMessage& hello) = 0;
  // Queued in order; dropped once the stream has ended. A coordinator that does not read for so
  // long that the queue is full loses the stream.
  virtual void Send(const v1::AgentMessage& message) = 0;
  virtual void Cancel() = 0;
};

}  // namespace maypole::agent
