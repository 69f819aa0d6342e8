#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/segment/handshake_reader.h"
#include "proto/segment_layout.h"
#include "proto/text.h"

namespace maypole::agent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Hello ValidHello() {
  auto hello = MakeMessage<Hello>(MessageKind::kHello, kClientProtocol);
  StoreText(hello.version, "0.1.0");
  hello.rank = 1;
  hello.world_size = 2;
  hello.pid = 4711;
  hello.job_bytes = StoreText(hello.job, "digits");
  return hello;
}

template <typename Message>
std::span<const std::byte> BytesOf(const Message& message, std::size_t bytes = sizeof(Message)) {
  return std::as_bytes(std::span(&message, 1)).first(bytes);
}

Outcome Refusal(const Hello& hello, std::size_t bytes = sizeof(Hello)) {
  const auto read = ReadHello(BytesOf(hello, bytes), "0.1.0");
  if (!std::holds_alternative<Outcome>(read)) {
    ADD_FAILURE() << "it was accepted";
    return {};
  }
  return std::get<Outcome>(read);
}

TEST(HelloReader, TakesEveryFieldOver) {
  const auto read = ReadHello(BytesOf(ValidHello()), "0.1.0");
  ASSERT_TRUE(std::holds_alternative<ClientHello>(read)) << std::get<Outcome>(read).text;
  const auto& hello = std::get<ClientHello>(read);
  EXPECT_EQ(hello.job, "digits");
  EXPECT_EQ(hello.rank, Rank(1));
  EXPECT_EQ(hello.world_size, 2u);
  EXPECT_EQ(hello.pid, 4711);
}

TEST(HelloReader, ATimeoutIsBoundedSoThatItCanBeAddedToTheTime) {
  Hello hello = ValidHello();
  const auto timeout_of = [&](std::int64_t ns) {
    hello.timeout_ns = ns;
    return std::get<ClientHello>(ReadHello(BytesOf(hello), "0.1.0")).timeout;
  };
  EXPECT_EQ(timeout_of(5), Duration(5));
  EXPECT_EQ(timeout_of(INT64_MAX), std::chrono::hours(365 * 24));
  EXPECT_EQ(timeout_of(INT64_MIN), Duration(0));
}

TEST(HelloReader, EveryTruncationIsRefused) {
  const Hello hello = ValidHello();
  for (std::size_t bytes = 0; bytes < sizeof(Hello); ++bytes) {
    EXPECT_EQ(Refusal(hello, bytes).code, ErrorCode::kInvalidArgument);
  }
}

TEST(HelloReader, ForeignBytesAreToldWhatThisIs) {
  Hello hello = ValidHello();
  std::memcpy(static_cast<void*>(&hello), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
  EXPECT_THAT(Refusal(hello).text, HasSubstr("Maypole agent's socket"));
}

TEST(HelloReader, AnotherProtocolIsRefusedWithBothVersions) {
  Hello hello = ValidHello();
  for (const std::uint32_t protocol : {kClientProtocol - 1, kClientProtocol + 1}) {
    hello.header.protocol = protocol;
    StoreText(hello.version, "7.7.7");
    const Outcome outcome = Refusal(hello);
    EXPECT_EQ(outcome.code, ErrorCode::kFailedPrecondition);
    EXPECT_THAT(outcome.text,
                AllOf(HasSubstr("7.7.7"),
                      HasSubstr("0.1.0"),
                      HasSubstr("protocol " + std::to_string(protocol))));
  }
  // A future hello may have another length behind the fields that stay for ever.
  hello.header.bytes = 48;
  EXPECT_THAT(Refusal(hello, 48).text, HasSubstr("7.7.7"));
  hello.header.bytes = 16;
  EXPECT_THAT(Refusal(hello, 16).text, HasSubstr("version unknown"));
  hello.header.bytes = sizeof(Hello);
  std::memset(hello.version, 0xff, sizeof(hello.version));
  EXPECT_THAT(Refusal(hello).text, HasSubstr("version unknown"));
}

TEST(HelloReader, RankAndJobAreChecked) {
  Hello hello = ValidHello();
  hello.rank = 2;
  EXPECT_THAT(Refusal(hello).text, HasSubstr("rank 2"));
  hello.rank = 0;
  hello.world_size = 0;
  EXPECT_THAT(Refusal(hello).text, HasSubstr("world size 0"));
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{128}, ~std::uint64_t{0}}) {
    hello = ValidHello();
    hello.job_bytes = bytes;
    EXPECT_THAT(Refusal(hello).text, HasSubstr("1 .. 127 bytes"));
  }
  hello = ValidHello();
  hello.job[2] = '\0';
  EXPECT_THAT(Refusal(hello).text, HasSubstr("UTF-8"));
}

TEST(RequestReader, KnowsTheRequestsAndNothingElse) {
  auto allocate = MakeMessage<AllocateRequest>(MessageKind::kAllocateRequest, kClientProtocol);
  allocate.bytes = 5;
  const auto read = ReadRequest(BytesOf(allocate));
  ASSERT_TRUE(std::holds_alternative<AllocateRequest>(read));
  EXPECT_EQ(std::get<AllocateRequest>(read).bytes, 5u);
  allocate.header.kind = MessageKind::kGoodbye;  // a goodbye of the wrong size
  EXPECT_TRUE(std::holds_alternative<Outcome>(ReadRequest(BytesOf(allocate))));
  for (const std::uint32_t kind : {0u, 1u, 2u, 3u, 5u, 9u, 11u, 0xffffffffu}) {
    allocate.header.kind = static_cast<MessageKind>(kind);
    EXPECT_TRUE(std::holds_alternative<Outcome>(ReadRequest(BytesOf(allocate)))) << kind;
  }
  allocate.header.kind = MessageKind::kAllocateRequest;
  allocate.header.bytes = 7;
  EXPECT_TRUE(std::holds_alternative<Outcome>(ReadRequest(BytesOf(allocate))));
  EXPECT_TRUE(std::holds_alternative<Outcome>(ReadRequest({})));
}

}  // namespace
}  // namespace maypole::agent
