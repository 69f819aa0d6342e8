#include <cstdlib>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "maypole/client.h"
#include "tests/unit/client/fake_agent.h"

namespace maypole::test {
namespace {

using client::OpOptions;
using client::Error;
using client::Op;
using client::Session;

static_assert(std::is_move_constructible_v<Session> && !std::is_copy_constructible_v<Session>);
static_assert(client::DTypeOf<float>() == MAYPOLE_F32 && client::DTypeOf<double>() == MAYPOLE_F64);
static_assert(client::DTypeOf<std::int8_t>() == MAYPOLE_I8 &&
              client::DTypeOf<std::uint8_t>() == MAYPOLE_U8);
static_assert(client::DTypeOf<int>() == MAYPOLE_I32 && client::DTypeOf<long>() == MAYPOLE_I64 &&
              client::DTypeOf<long long>() == MAYPOLE_I64);

Session ConnectTo(const std::string& path) {
  maypole_connect_options options{};
  options.socket = path.c_str();
  options.world_size = 1;
  return Session::Connect(options);
}

TEST(CppFace, AllReducesAllocatedAndOrdinaryMemory) {
  FakeAgent agent;
  Session session = ConnectTo(agent.path());
  std::span<float> zero_copy = session.Allocate<float>(100);
  std::vector<float> ordinary(100, 1.0f);
  Op first = session.AllReduce(zero_copy, {.name = "a", .priority = 1});
  Op second = session.AllReduce(std::span(ordinary));
  second.Wait();
  first.Wait();
  EXPECT_THAT(zero_copy, testing::Each(1.0f));
  EXPECT_THAT(ordinary, testing::Each(2.0f));
  session.Free(zero_copy);
  Op shared = session.AllReduce(std::span(ordinary), {.shared_result = true});
  shared.Wait();
  EXPECT_EQ(shared.Result<float>()[0], 3.0f);
  session.Barrier("end").Wait();
  EXPECT_EQ(session.AgentStats().ops, 42u);
}

TEST(CppFace, ErrorsAreExceptionsWithStatusAndCulprits) {
  FakeAgent::Hooks hooks;
  hooks.on_submission = [](FakeAgent& failing, const agent::Submission& op) {
    failing.Fail(op, {ErrorCode::kMismatch, "counts differ", "ranks=1"});
  };
  FakeAgent agent(hooks);
  Session session = ConnectTo(agent.path());
  std::vector<int> values(4);
  Op op = session.AllReduce(std::span(values));
  try {
    op.Wait();
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), MAYPOLE_MISMATCH);
    EXPECT_STREQ(error.what(), "counts differ");
    EXPECT_EQ(error.culprits(), "ranks=1");
  }
  EXPECT_THROW(static_cast<void>(session.AllReduce(nullptr, 1, MAYPOLE_BF16)), Error);
  EXPECT_THROW(ConnectTo("/nowhere/agent.sock"), Error);
}

}  // namespace
}  // namespace maypole::test
