#include "daemon/http_endpoint.h"

#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <iterator>
#include <memory>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

#include <civetweb.h>
#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include "common/unique_fd.h"

namespace maypole::daemon {
namespace {

struct Page {
  int status = 200;
  std::string_view reason = "OK";
  std::string_view type = "text/plain; charset=utf-8";
  std::string body;
};

Page PageOf(const std::function<HttpAnswer()>& callback) {
  HttpAnswer answer = callback ? callback() : HttpAnswer{.ok = true, .text = "ok"};
  Page page{.body = std::move(answer.text) + "\n"};
  if (!answer.ok) {
    page.status = 503;
    page.reason = "Service Unavailable";
  }
  return page;
}

Page MetricsPage(const HttpEndpointOptions& options) {
  std::vector<prometheus::MetricFamily> families;
  for (const auto& collectable : options.metrics) {
    std::vector<prometheus::MetricFamily> part = collectable->Collect();
    std::move(part.begin(), part.end(), std::back_inserter(families));
  }
  return {.type = "text/plain; version=0.0.4; charset=utf-8",
          .body = prometheus::TextSerializer().Serialize(families)};
}

Page Answer(const HttpEndpointOptions& options, std::string_view method, std::string_view path) {
  if (method != "GET" && method != "HEAD") {
    return {.status = 405, .reason = "Method Not Allowed", .body = "only GET and HEAD\n"};
  }
  if (path == "/metrics") {
    return MetricsPage(options);
  }
  if (path == "/healthz") {
    return PageOf(options.health);
  }
  if (path == "/readyz") {
    return PageOf(options.readiness);
  }
  return {
      .status = 404, .reason = "Not Found", .body = "there is /metrics, /healthz and /readyz\n"};
}

std::string ListenText(const std::string& address, std::uint16_t port) {
  const bool is_v6 = address.find(':') != std::string::npos && address.front() != '[';
  return (is_v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

void Knock(const std::string& address, std::uint16_t port) {
  const addrinfo hints{.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  const UniqueFd knocker(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  (void)connect(knocker.get(), found->ai_addr, found->ai_addrlen);
}

// civetweb looks whether it is to stop when somebody connects, else every two seconds.
void StopSoon(mg_context* context, const std::string& address, std::uint16_t port) {
  const std::jthread knocking([&](const std::stop_token& stopped) {
    while (!stopped.stop_requested()) {
      Knock(address, port);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  mg_stop(context);
}

}  // namespace

struct HttpEndpoint::Server {
  HttpEndpointOptions options;
  mg_context* context = nullptr;
  std::uint16_t port = 0;

  ~Server() {
    if (context != nullptr) {
      StopSoon(context, options.listen, port);
    }
  }

  static int Serve(mg_connection* connection, void* user_data) {
    const HttpEndpointOptions& options = static_cast<Server*>(user_data)->options;
    const mg_request_info* request = mg_get_request_info(connection);
    const Page page = Answer(options, request->request_method, request->local_uri);
    mg_printf(
        connection,
        "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n",
        page.status,
        page.reason.data(),
        page.type.data(),
        page.body.size(),
        page.status == 405 ? "Allow: GET, HEAD\r\n" : "");
    if (std::string_view(request->request_method) != "HEAD") {
      mg_write(connection, page.body.data(), page.body.size());
    }
    return page.status;
  }

  // Keeps civetweb from writing its complaints into the working directory or to standard error.
  static int Silence(const mg_connection*, const char*) { return 1; }
};

HttpEndpoint::HttpEndpoint(std::unique_ptr<Server> server) : server_(std::move(server)) {}

HttpEndpoint::~HttpEndpoint() = default;

std::uint16_t HttpEndpoint::port() const {
  return server_->port;
}

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Create(HttpEndpointOptions options) {
  auto server = std::make_unique<Server>();
  server->options = std::move(options);
  const std::string listen = ListenText(server->options.listen, server->options.port);
  // A connection that says nothing holds a thread until the time limit, half a minute by default. A
  // scrape is on the same network: what has not been said in half a second never comes.
  const char* settings[] = {
      "listening_ports", listen.c_str(), "num_threads", "8", "request_timeout_ms", "500", nullptr};
  mg_callbacks callbacks{};
  callbacks.log_message = &Server::Silence;
  std::array<char, 256> reason{};
  unsigned code = 0;
  mg_error_data error{.code = &code, .text = reason.data(), .text_buffer_size = reason.size()};
  mg_init_data init{
      .callbacks = &callbacks, .user_data = server.get(), .configuration_options = settings};
  server->context = mg_start2(&init, &error);
  if (server->context == nullptr) {
    return absl::UnavailableError(
        "--http-port " + std::to_string(server->options.port) + ", " +
        server->options.listen_option + " " + server->options.listen + ": cannot listen on " +
        listen + " (" + reason.data() +
        "); is the port in use, or the address another machine's? Choose others");
  }
  mg_server_port port{};
  if (mg_get_server_ports(server->context, 1, &port) == 1) {
    server->port = static_cast<std::uint16_t>(port.port);
  }
  mg_set_request_handler(server->context, "**", &Server::Serve, server.get());
  return std::unique_ptr<HttpEndpoint>(new HttpEndpoint(std::move(server)));
}

}  // namespace maypole::daemon
