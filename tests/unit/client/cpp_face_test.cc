#include <cstdlib>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "maypole/client.h"
#include "tests/unit/client/fake_agent.h"

namespace maypole::test {
namespace {

using client::Error;
using client::Op;
using client::OpOptions;
using client::Session;

static_assert(std::is_move_constructible_v<Session> && !std::is_copy_constructible_v<Session>);
static_assert(client::DTypeOf<float>() == MAYPOLE_F32 && client::DTypeOf<double>() == MAYPOLE_F64);
static_assert(client::DTypeOf<std::int8_t>() == MAYPOLE_I8 &&
              client::DTypeOf<std::uint8_t>() == MAYPOLE_U8);
static_assert(client::DTypeOf<int>() == MAYPOLE_I32 && client::DTypeOf<long>() == MAYPOLE_I64 &&
              client::DTypeOf<long long>() == MAYPOLE_I64);

Session ConnectTo(const std::string& path, std::int64_t world_size = 1) {
  maypole_connect_options options{};
  options.socket = path.c_str();
  options.world_size = world_size;
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

TEST(CppFace, EveryCollectiveTakesSpansOrADType) {
  FakeAgent agent;
  Session session = ConnectTo(agent.path(), 2);
  const std::span<float> tensor = session.Allocate<float>(4);
  const std::span<float> output = session.Allocate<float>(4);
  const std::span<const float> constant = tensor;
  std::vector<std::uint16_t> half(4);
  const std::uint64_t counts[] = {1, 3};
  std::vector<Op> ops;
  ops.push_back(session.ReduceScatter(tensor, {}, counts));
  ops.push_back(session.ReduceScatter(half.data(), 4, MAYPOLE_BF16, {}, counts));
  ops.push_back(session.AllGather(tensor));
  ops.push_back(session.AllGather(half.data(), 4, MAYPOLE_F16));
  ops.push_back(session.Broadcast(tensor, 1));
  ops.push_back(session.Broadcast(half.data(), 4, MAYPOLE_F16, 1));
  ops.push_back(session.Reduce(tensor, 0));
  ops.push_back(session.Reduce(half.data(), 4, MAYPOLE_BF16, 0));
  ops.push_back(session.AllToAll(tensor, output));
  ops.push_back(session.AllToAll(constant, output));
  ops.push_back(session.AllToAll(half.data(), output.data(), 4, MAYPOLE_F16));
  ops.push_back(session.Send(tensor, 1));
  ops.push_back(session.Send(constant, 1));
  ops.push_back(session.Send(half.data(), 4, MAYPOLE_F16, 1));
  ops.push_back(session.Recv(tensor, 1));
  ops.push_back(session.Recv(half.data(), 4, MAYPOLE_BF16, 1));
  for (Op& op : ops) {
    EXPECT_NO_THROW(op.Wait());
  }
  const auto seen = agent.Await<agent::Submission>(ops.size());
  ASSERT_EQ(seen.size(), ops.size());
  EXPECT_EQ(seen[1].dtype, DType::kBF16);
  EXPECT_THAT(seen[1].counts, testing::ElementsAre(1, 3));
  EXPECT_EQ(seen[12].dtype, DType::kF32);
  EXPECT_EQ(seen[13].dtype, DType::kF16);
  EXPECT_EQ(seen[13].peer, Rank(1));
  EXPECT_EQ(seen[15].root, Rank(1));
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
