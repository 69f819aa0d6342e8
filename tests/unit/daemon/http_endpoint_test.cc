#include "daemon/http_endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <sstream>

#include <gmock/gmock.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include "common/unique_fd.h"

namespace maypole::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

UniqueFd Connect(std::uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

// The whole answer to one request.
std::string Ask(std::uint16_t port, const std::string& request) {
  const UniqueFd fd = Connect(port);
  EXPECT_EQ(send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t bytes = 0; (bytes = recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(bytes));
  }
  return answer;
}

std::string Get(std::uint16_t port, const std::string& path, const std::string& method = "GET") {
  return Ask(port, method + " " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

class HttpEndpointTest : public testing::Test {
 protected:
  HttpEndpointTest() {
    prometheus::BuildCounter()
        .Name("maypole_things_total")
        .Help("Things")
        .Register(*registry_)
        .Add({{"kind", "a\"b"}})
        .Increment(3);
    auto created = HttpEndpoint::Create({.listen = "127.0.0.1",
                                         .metrics = {registry_},
                                         .health =
                                             [this] {
                                               return HttpAnswer{healthy_, "alive"};
                                             },
                                         .readiness =
                                             [this] {
                                               return HttpAnswer{ready_, "no epoch yet"};
                                             }});
    endpoint_ = *std::move(created);
  }

  std::uint16_t port() const { return endpoint_->port(); }

  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  std::atomic<bool> healthy_ = true;
  std::atomic<bool> ready_ = false;
  std::unique_ptr<HttpEndpoint> endpoint_;
};

TEST_F(HttpEndpointTest, ServesMetricsThatParse) {
  const std::string answer = Get(port(), "/metrics");
  EXPECT_THAT(answer,
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("text/plain; version=0.0.4")));
  std::istringstream lines(answer.substr(answer.find("\r\n\r\n") + 4));
  int samples = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_THAT(line, testing::MatchesRegex(R"((# (HELP|TYPE) .*)|([a-z_]+(\{.*\})? [^ ]+))"));
    samples += line.starts_with('#') ? 0 : 1;
  }
  EXPECT_EQ(samples, 1);
  EXPECT_THAT(answer, HasSubstr("maypole_things_total{kind=\"a\\\"b\"} 3\n"));
}

TEST_F(HttpEndpointTest, HealthAndReadinessFollowTheirCallbacks) {
  EXPECT_THAT(Get(port(), "/healthz"), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("alive\n")));
  EXPECT_THAT(Get(port(), "/readyz"),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("no epoch yet\n")));
  ready_ = true;
  healthy_ = false;
  EXPECT_THAT(Get(port(), "/readyz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(port(), "/healthz"), StartsWith("HTTP/1.1 503"));
}

TEST_F(HttpEndpointTest, AnythingElseIs404) {
  for (const char* path : {"/", "/metrics2", "/metrics/x", "/%2e%2e/etc/passwd"}) {
    EXPECT_THAT(Get(port(), path), StartsWith("HTTP/1.1 404")) << path;
  }
}

TEST_F(HttpEndpointTest, WritesNothingAndSaysWhichMethodsItKnows) {
  EXPECT_THAT(Get(port(), "/metrics", "POST"),
              AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET, HEAD")));
  EXPECT_THAT(Get(port(), "/metrics", "DELETE"), StartsWith("HTTP/1.1 405"));
}

TEST_F(HttpEndpointTest, HeadHasNoBody) {
  const std::string answer = Get(port(), "/healthz", "HEAD");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200"), testing::EndsWith("\r\n\r\n")));
}

TEST_F(HttpEndpointTest, SurvivesStrangers) {
  Ask(port(), "\x16\x03\x01 no http at all\r\n\r\n");
  { const UniqueFd silent = Connect(port()); }
  EXPECT_THAT(Get(port(), "/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpEndpointTest, PortInUseIsAnErrorThatNamesPortAndOption) {
  const auto second = HttpEndpoint::Create({.listen = "127.0.0.1",
                                            .port = port(),
                                            .listen_option = "--http-listen",
                                            .metrics = {},
                                            .health = {},
                                            .readiness = {}});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr("--http-port"), HasSubstr("127.0.0.1:" + std::to_string(port()))));
}

TEST_F(HttpEndpointTest, PortIsFreeAgainAfterwards) {
  const std::uint16_t port_before = port();
  endpoint_.reset();
  EXPECT_TRUE(HttpEndpoint::Create({.listen = "127.0.0.1",
                                    .port = port_before,
                                    .metrics = {},
                                    .health = {},
                                    .readiness = {}})
                  .ok());
}

TEST(HttpEndpoint, AnAddressOfNobodyIsAnError) {
  const auto endpoint = HttpEndpoint::Create({.listen = "nonsense",
                                              .listen_option = "--http-listen",
                                              .metrics = {},
                                              .health = {},
                                              .readiness = {}});
  ASSERT_FALSE(endpoint.ok());
  EXPECT_THAT(std::string(endpoint.status().message()), HasSubstr("--http-listen nonsense"));
}

}  // namespace
}  // namespace maypole::daemon
