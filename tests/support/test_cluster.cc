#include "tests/support/test_cluster.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/local_cluster.h"
#include "tests/support/process_facts.h"

namespace maypole::test {
namespace {

constexpr double kReadySeconds = 30;
constexpr double kEndSeconds = 20;
constexpr double kPeaceSeconds = 5;

template <typename Value>
Value ValueOf(absl::StatusOr<Value> value) {
  if (!value.ok()) {
    throw std::runtime_error(value.status().ToString());
  }
  return *std::move(value);
}

UniqueFd OpenForAppend(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
}

std::string NameOf(std::uint32_t node) {
  return "node-" + std::to_string(node);
}

}  // namespace

std::string PathOfBinary(const std::string& name) {
  return std::filesystem::path(cli::OwnFolder()).parent_path() / "bin" / name;
}

EndedProcess RunToEnd(std::vector<std::string> argv, std::vector<std::string> environment) {
  const std::string log = std::string(getenv("TMPDIR")) + "/output";
  const UniqueFd output = OpenForAppend(log);
  cli::ChildOptions options;
  options.argv = std::move(argv);
  options.environment = std::move(environment);
  options.stdout_fd = options.stderr_fd = output.get();
  cli::ChildProcess process = ValueOf(cli::ChildProcess::Start(options));
  const auto status = process.WaitFor(kEndSeconds);
  EndedProcess ended{.code = status ? status->code() : -1, .output = TextOfFile(log)};
  std::filesystem::remove(log);
  if (!status) {
    ended.output += "(it did not end)";
  }
  return ended;
}

DaemonProcess::DaemonProcess(const std::string& folder,
                             const std::string& name,
                             std::vector<std::string> argv,
                             int net_namespace)
    : base_(folder + "/" + name) {
  std::filesystem::remove(base_ + ".ports");
  argv.insert(argv.end(), {"--ports-file", base_ + ".ports"});
  const UniqueFd output = OpenForAppend(base_ + ".log");
  cli::ChildOptions options;
  options.argv = std::move(argv);
  options.stdout_fd = options.stderr_fd = output.get();
  options.net_namespace = net_namespace;
  process_.emplace(ValueOf(cli::ChildProcess::Start(options)));
}

std::string DaemonProcess::Log() const {
  return TextOfFile(base_ + ".log");
}

int DaemonProcess::Port(const std::string& key) const {
  const auto ports = nlohmann::json::parse(TextOfFile(base_ + ".ports"), nullptr, false);
  return ports.is_object() ? ports.value(key, 0) : 0;
}

std::string DaemonProcess::Get(const std::string& path) const {
  const UniqueFd connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(Port("http")));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return "nobody listens";
  }
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  (void)!write(connection.get(), request.data(), request.size());
  std::string answer;
  std::array<char, 4096> text;
  for (ssize_t got = 0; (got = read(connection.get(), text.data(), text.size())) > 0;) {
    answer.append(text.data(), static_cast<std::size_t>(got));
  }
  return answer;
}

double DaemonProcess::Metric(const std::string& name) const {
  const std::string text = Get("/metrics");
  const std::size_t line = text.find("\n" + name + " ");
  return line == std::string::npos ? 0 : std::stod(text.substr(line + name.size() + 2));
}

void DaemonProcess::AwaitReady() {
  const bool settled = Eventually([&] { return Port("http") > 0 || process_->Poll(); },
                                  std::chrono::duration<double>(kReadySeconds));
  if (!settled || process_->Poll()) {
    throw std::runtime_error(base_ + " is not ready; it said:\n" + Log());
  }
}

void DaemonProcess::Signal(int signal) {
  is_killed_ = is_killed_ || signal == SIGKILL;
  process_->Signal(signal);
}

void DaemonProcess::ExpectEndsInPeace() {
  const auto code = AwaitEnd(kPeaceSeconds);
  EXPECT_EQ(code, is_killed_ ? 128 + SIGKILL : 0) << Log();
}

std::optional<int> DaemonProcess::AwaitEnd(double seconds) {
  const auto status = process_->WaitFor(seconds);
  return status ? std::optional(status->code()) : std::nullopt;
}

TestCluster::TestCluster(ClusterOptions options)
    : options_(std::move(options)), janitor_(ValueOf(cli::Janitor::Start())) {
  std::string host = "127.0.0.1";
  if (options_.use_namespaces) {
    network_ = ValueOf(cli::VirtualNetwork::Create({options_.nodes, options_.bits_per_second, {}}));
    host = cli::VirtualNetwork::SwitchAddress();
    coordinator_port_ = 7700;
  } else {
    coordinator_port_ = ReservedPort().number();
  }
  coordinator_address_ = host + ":" + std::to_string(coordinator_port_);
  if (options_.with_coordinator) {
    StartCoordinator();
  }
  for (std::uint32_t node = 0; node < options_.nodes; ++node) {
    const int inside = network_ ? network_->node_namespace(node) : -1;
    agents_.try_emplace(node, folder(), NameOf(node), AgentCommand(node), inside);
  }
  for (auto& [node, agent] : agents_) {
    agent.AwaitReady();
  }
}

TestCluster::~TestCluster() {
  std::vector<DaemonProcess*> daemons;
  for (auto& [node, agent] : agents_) {
    daemons.push_back(&agent);
  }
  if (coordinator_) {
    daemons.push_back(&*coordinator_);
  }
  for (DaemonProcess* daemon : daemons) {
    daemon->Signal(SIGCONT);
    daemon->Signal(SIGTERM);
  }
  for (DaemonProcess* daemon : daemons) {
    daemon->ExpectEndsInPeace();
  }
}

std::string TestCluster::SocketOf(std::uint32_t node) const {
  return folder() + "/" + NameOf(node) + ".sock";
}

void TestCluster::StartCoordinator() {
  const std::string host = coordinator_address_.substr(0, coordinator_address_.find(':'));
  const std::vector<std::string> command = {PathOfBinary("maypole-coordinator"),
                                            "--listen",
                                            host,
                                            "--port",
                                            std::to_string(coordinator_port_),
                                            "--http-port",
                                            "0"};
  coordinator_.reset();
  coordinator_.emplace(
      folder(), "coordinator", command, network_ ? network_->switch_namespace() : -1);
  coordinator_->AwaitReady();
}

std::vector<std::string> TestCluster::AgentCommand(std::uint32_t node) const {
  std::vector<std::string> command = {PathOfBinary("maypole-agent"),
                                      "--coordinator",
                                      coordinator_address_,
                                      "--node",
                                      NameOf(node),
                                      "--socket",
                                      SocketOf(node),
                                      "--interface",
                                      network_ ? cli::VirtualNetwork::kInterface : "lo",
                                      "--peer-port",
                                      "0",
                                      "--http-port",
                                      "0"};
  command.insert(command.end(), options_.agent_arguments.begin(), options_.agent_arguments.end());
  if (node < options_.labels.size()) {
    command.insert(command.end(), {"--labels", options_.labels[node]});
  }
  return command;
}

void TestCluster::StartAgent(std::uint32_t node) {
  const int inside = network_ ? network_->node_namespace(node) : -1;
  agents_.erase(node);
  agents_.try_emplace(node, folder(), NameOf(node), AgentCommand(node), inside)
      .first->second.AwaitReady();
}

Session TestCluster::Connect(std::uint32_t node,
                             std::uint32_t rank,
                             std::uint32_t world_size,
                             const std::string& job,
                             double timeout) const {
  const std::string socket = SocketOf(node);
  return Session::Connect({.socket = socket.c_str(),
                           .job = job.c_str(),
                           .rank = rank,
                           .world_size = world_size,
                           .timeout = timeout});
}

std::vector<Session> TestCluster::ConnectAll(std::uint32_t ranks_per_node,
                                             const std::string& job,
                                             std::optional<std::uint32_t> but) const {
  const std::uint32_t world_size = nodes() * ranks_per_node;
  std::vector<std::future<Session>> joining;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    if (rank != but) {
      joining.push_back(std::async(std::launch::async, [=, this] {
        return Connect(rank / ranks_per_node, rank, world_size, job);
      }));
    }
  }
  std::vector<Session> sessions;
  std::string errors;
  for (auto& one : joining) {
    try {
      sessions.push_back(one.get());
    } catch (const std::exception& error) {
      errors += error.what() + std::string("\n");
    }
  }
  if (!errors.empty()) {
    throw std::runtime_error(errors + Logs());
  }
  return sessions;
}

std::string TestCluster::Logs() const {
  std::string logs = coordinator_ ? coordinator_->Log() : "";
  for (const auto& [node, agent] : agents_) {
    logs += agent.Log();
  }
  return logs;
}

std::string TestCluster::StatusJson() const {
  return RunToEnd(
             {PathOfBinary("maypole"), "status", "--json", "--coordinator", coordinator_address_})
      .output;
}

ReservedPort::ReservedPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(socket_.get(), generic, length) != 0 ||
      getsockname(socket_.get(), generic, &length) != 0) {
    throw std::runtime_error("cannot bind a port");
  }
  number_ = ntohs(address.sin_port);
}

void ReservedPort::Listen() {
  listen(socket_.get(), 1);
}

}  // namespace maypole::test
