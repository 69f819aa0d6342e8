// Forked children run only the client and _exit: they share the parent's stdout and gtest state. A
// child reports by its exit code.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/client/fake_agent.h"
#include "tests/unit/client/test_session.h"

namespace maypole::test {
namespace {

// The exit code of a child that runs `body`; -1 if it died of a signal.
int InChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool IsForkError(maypole_status status) {
  return status == MAYPOLE_FAILED_PRECONDITION &&
         std::strstr(maypole_last_error(), "forked child") != nullptr;
}

TEST(Fork, EveryCallInAChildIsRefusedWithASentence) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  float* values = AllocateFloats(session, 16);
  OpPtr op = AllReduce(session, values, 16);
  const int exit_code = InChild([&] {
    maypole_op* later = nullptr;
    void* memory = nullptr;
    maypole_agent_stats stats;
    return !IsForkError(maypole_all_reduce(session.get(), values, 16, nullptr, &later)) ? 1
           : !IsForkError(maypole_barrier(session.get(), nullptr, 0, &later))           ? 2
           : !IsForkError(maypole_alloc(session.get(), 1, &memory))                     ? 3
           : !IsForkError(maypole_free(session.get(), values))                          ? 4
           : !IsForkError(maypole_get_agent_stats(session.get(), &stats))               ? 5
           : maypole_test(op.get()) != 1 || maypole_wait_for(op.get(), 10) != 1         ? 6
           : !IsForkError(maypole_wait(op.get()))                                       ? 7
           : maypole_op_result(op.get()) != nullptr                                     ? 8
           : maypole_rank(session.get()) != 0                                           ? 9
                                                                                        : 0;
  });
  EXPECT_EQ(exit_code, 0);
  EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_OK);
}

TEST(Fork, AChildThatClosesEverythingHarmsNothing) {
  FakeAgent agent;
  SessionPtr session = Connect(agent.path());
  float* values = AllocateFloats(session, 1 << 20);
  values[0] = 5;
  OpPtr op = AllReduce(session, values, 1 << 20);
  const int exit_code = InChild([&] {
    maypole_op_free(op.release());
    maypole_leave(session.get());
    maypole_close(session.release());
    return 0;
  });
  EXPECT_EQ(exit_code, 0);
  EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_OK) << maypole_last_error();
  EXPECT_EQ(values[0], 6.0f);
  OpPtr again = AllReduce(session, values, 16);
  EXPECT_EQ(maypole_wait(again.get()), MAYPOLE_OK);
  EXPECT_EQ(agent.Await<agent::ClientGone>(0).size(), 0u);
}

TEST(Fork, AChildThatOutlivesItsParentDoesNotHideTheParentsEnd) {
  FakeAgent agent;
  // The test's process is "the parent" here: it closes its socket without a goodbye while a child
  // lives on.
  int hold[2];
  ASSERT_EQ(::pipe(hold), 0);
  const std::string path = agent.path();
  const pid_t parent = ::fork();
  if (parent == 0) {  // this one connects, forks a data loader, and dies
    ::close(hold[1]);
    SessionPtr session;
    const bool is_connected = TryConnect(path, session) == MAYPOLE_OK;
    if (is_connected && ::fork() == 0) {
      char byte = 0;
      [[maybe_unused]] const auto bytes = ::read(hold[0], &byte, 1);  // until the test ends
      ::_exit(0);
    }
    ::_exit(is_connected ? 0 : 1);
  }
  ::close(hold[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(parent, &status, 0), parent);
  EXPECT_EQ(status, 0);
  const auto gone = agent.Await<agent::ClientGone>(1);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_TRUE(gone[0].died);
  EXPECT_NE(gone[0].reason.find(std::to_string(parent)), std::string::npos) << gone[0].reason;
  ::close(hold[1]);
}

TEST(Fork, AChildMayConnectOnItsOwn) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  const std::string path = agent.path();
  const int exit_code = InChild([&path, &session] {
    SessionPtr own;
    if (TryConnect(path, own, 0, 1) != MAYPOLE_OK) {
      return 1;
    }
    float value = 1;
    maypole_op* op = nullptr;
    if (maypole_all_reduce(own.get(), &value, 1, nullptr, &op) != MAYPOLE_OK ||
        maypole_wait(op) != MAYPOLE_OK || value != 2) {
      return 2;
    }
    maypole_op_free(op);
    void* memory = nullptr;
    return IsForkError(maypole_alloc(session.get(), 1, &memory)) ? 0 : 3;
  });
  EXPECT_EQ(exit_code, 0);
}

TEST(Fork, AKilledClientIsReportedAsDead) {
  FakeAgent::Hooks hooks;
  hooks.on_submission = [](FakeAgent&, const agent::Submission&) {};
  hooks.releases_gone_sessions = false;
  FakeAgent agent(hooks);
  const std::string path = agent.path();
  const pid_t child = ::fork();
  if (child == 0) {
    SessionPtr session;
    float value = 1;
    maypole_op* op = nullptr;
    if (TryConnect(path, session) == MAYPOLE_OK &&
        maypole_all_reduce(session.get(), &value, 1, nullptr, &op) == MAYPOLE_OK) {
      maypole_wait(op);  // for ever
    }
    ::_exit(1);
  }
  const auto ops = agent.Await<agent::Submission>(1);
  ASSERT_EQ(ops.size(), 1u);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  const auto gone = agent.Await<agent::ClientGone>(1);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_TRUE(gone[0].died);
  EXPECT_EQ(gone[0].session, ops[0].session);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  agent.Do([&ops](agent::SegmentServer& server) {
    EXPECT_EQ(server.Sessions(), 1u);
    std::memset(ops[0].tensor.address, 1, ops[0].tensor.bytes);  // still mapped
    server.Complete({ops[0].session, ops[0].slot, {}, {}});
    server.Release(ops[0].session);
    EXPECT_EQ(server.Sessions(), 0u);
    EXPECT_EQ(server.SegmentBytes(), 0u);
  });
}

TEST(Fork, WhileOtherThreadsWorkDoesNotHangTheChild) {
  FakeAgent agent;
  const SessionPtr session = Connect(agent.path());
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    float value = 0;
    while (!stop) {
      OpPtr op = AllReduce(session, &value, 1);
      ASSERT_EQ(maypole_wait(op.get()), MAYPOLE_OK);
      void* memory = nullptr;
      ASSERT_EQ(maypole_alloc(session.get(), 2 << 20, &memory), MAYPOLE_OK);
      ASSERT_EQ(maypole_free(session.get(), memory), MAYPOLE_OK);
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(InChild([&session] {
                void* memory = nullptr;
                return IsForkError(maypole_alloc(session.get(), 1, &memory)) ? 0 : 1;
              }),
              0);
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace maypole::test
