#include "cli/virtual_network.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <utility>

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include "cli/child_process.h"
#include "common/check.h"

namespace maypole::cli {
namespace {

constexpr std::uint32_t kMostNodes = 250;
constexpr char kOwnNamespace[] = "/proc/thread-self/ns/net";
constexpr char kCongestionControl[] = "/proc/sys/net/ipv4/tcp_congestion_control";

// While this object lives, the calling thread is in another network namespace, if it says so.
class InNamespace {
 public:
  explicit InNamespace(int target) : home_(open(kOwnNamespace, O_RDONLY | O_CLOEXEC)) {
    if (!home_.valid() || setns(target, CLONE_NEWNET) != 0) {
      status_ = absl::InternalError(
          absl::StrCat("cannot enter the network namespace of a node: ", strerror(errno)));
    }
  }

  ~InNamespace() {
    // Back home is always allowed; elsewhere nothing that follows would be right.
    MAYPOLE_CHECK(!status_.ok() || setns(home_.get(), CLONE_NEWNET) == 0);
  }

  InNamespace(const InNamespace&) = delete;
  InNamespace& operator=(const InNamespace&) = delete;

  const absl::Status& status() const { return status_; }

 private:
  UniqueFd home_;
  absl::Status status_;
};

absl::StatusOr<UniqueFd> NewNamespace() {
  UniqueFd home(open(kOwnNamespace, O_RDONLY | O_CLOEXEC));
  if (!home.valid() || unshare(CLONE_NEWNET) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("cannot make a network namespace: ",
                                                      strerror(errno),
                                                      "; --netns needs root (CAP_SYS_ADMIN)"));
  }
  UniqueFd made(open(kOwnNamespace, O_RDONLY | O_CLOEXEC));
  if (setns(home.get(), CLONE_NEWNET) != 0 || !made.valid()) {
    return absl::InternalError(
        absl::StrCat("cannot leave the new network namespace: ", strerror(errno)));
  }
  return made;
}

// A queue of 4 MB, as a switch port has; bursts of 512 KB, so that late timer ticks do not lower
// the rate.
std::string ShaperCommand(const std::string& device, double bits_per_second) {
  std::ostringstream line;
  line << "qdisc add dev " << device << " root tbf rate " << std::fixed << std::setprecision(0)
       << bits_per_second << "bit burst 512kb limit 4mb\n";
  return line.str();
}

absl::Status SetCongestionControl(const std::string& name) {
  if (name.empty()) {
    return absl::OkStatus();
  }
  const UniqueFd file(open(kCongestionControl, O_WRONLY | O_CLOEXEC));
  if (file.valid() &&
      write(file.get(), name.data(), name.size()) == static_cast<ssize_t>(name.size())) {
    return absl::OkStatus();
  }
  const int error = errno;
  std::string allowed;
  std::getline(std::ifstream("/proc/sys/net/ipv4/tcp_allowed_congestion_control"), allowed);
  return absl::InvalidArgumentError(
      absl::StrCat("TCP congestion control '",
                   name,
                   "' cannot be set in a network namespace: ",
                   strerror(error),
                   "; allowed is: ",
                   allowed,
                   "; more with: modprobe tcp_",
                   name,
                   "; sysctl -w net.ipv4.tcp_allowed_congestion_control='",
                   allowed,
                   " ",
                   name,
                   "'"));
}

}  // namespace

std::string VirtualNetwork::NodeAddress(std::uint32_t node) {
  return absl::StrCat("10.77.0.", node + 1);
}

std::string VirtualNetwork::SwitchAddress() {
  return "10.77.0.254";
}

absl::StatusOr<VirtualNetwork> VirtualNetwork::Create(const VirtualNetworkOptions& options) {
  if (options.nodes == 0 || options.nodes > kMostNodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--netns takes 1 to ", kMostNodes, " nodes, not ", options.nodes));
  }
  VirtualNetwork network;
  absl::StatusOr<UniqueFd> made = NewNamespace();
  if (!made.ok()) {
    return made.status();
  }
  network.switch_ = *std::move(made);
  absl::Status status = RunTool({"ip", "-batch", "-"},
                                absl::StrCat("link set lo up\nlink add br0 type bridge\naddr add ",
                                             SwitchAddress(),
                                             "/24 dev br0\nlink set br0 up\n"),
                                network.switch_namespace());
  for (std::uint32_t node = 0; status.ok() && node < options.nodes; ++node) {
    status = network.AddNode(options);
  }
  if (!status.ok()) {
    return status;
  }
  const InNamespace inside(network.node_namespace(0));
  if (!inside.status().ok()) {
    return inside.status();
  }
  std::getline(std::ifstream(kCongestionControl), network.congestion_control_);
  return network;
}

absl::Status VirtualNetwork::AddNode(const VirtualNetworkOptions& options) {
  absl::StatusOr<UniqueFd> made = NewNamespace();
  if (!made.ok()) {
    return made.status();
  }
  const auto node = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(*std::move(made));
  const int inside = node_namespace(node);
  const std::string port = absl::StrCat("port", node);
  absl::Status status = RunTool({"ip", "-batch", "-"},
                                absl::StrCat("link add ",
                                             port,
                                             " type veth peer name ",
                                             kInterface,
                                             " netns /proc/",
                                             getpid(),
                                             "/fd/",
                                             inside,
                                             "\nlink set ",
                                             port,
                                             " master br0\nlink set ",
                                             port,
                                             " up\n"),
                                switch_namespace());
  status.Update(RunTool({"ip", "-batch", "-"},
                        absl::StrCat("link set lo up\naddr add ",
                                     NodeAddress(node),
                                     "/24 dev ",
                                     kInterface,
                                     "\nlink set ",
                                     kInterface,
                                     " up\n"),
                        inside));
  if (options.bits_per_second > 0) {
    status.Update(RunTool(
        {"tc", "-batch", "-"}, ShaperCommand(port, options.bits_per_second), switch_namespace()));
    status.Update(
        RunTool({"tc", "-batch", "-"}, ShaperCommand(kInterface, options.bits_per_second), inside));
  }
  if (!status.ok()) {
    return status;
  }
  const InNamespace entered(inside);
  return entered.status().ok() ? SetCongestionControl(options.congestion_control)
                               : entered.status();
}

}  // namespace maypole::cli
