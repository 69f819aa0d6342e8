// No exception leaves the C face, whichever function runs out of memory.
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "tests/unit/client/fake_agent.h"
#include "tests/unit/client/test_session.h"

namespace {

// Of this thread, while there is one: operator new throws.
thread_local bool t_memory_is_out = false;

struct OutOfMemory {
  OutOfMemory() { t_memory_is_out = true; }

  ~OutOfMemory() { t_memory_is_out = false; }
};

void* Allocate(std::size_t bytes) {
  void* memory = t_memory_is_out ? nullptr : std::malloc(bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return Allocate(bytes);
}

void* operator new[](std::size_t bytes) {
  return Allocate(bytes);
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete[](void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace maypole::test {
namespace {

TEST(NoMemory, IsAStatusOrAnAnswerAndNoException) {
  FakeAgent::Hooks hooks;
  hooks.on_submission = [](FakeAgent&, const agent::Submission&) {};
  FakeAgent agent(hooks);
  SessionPtr session = Connect(agent.path());
  OpPtr op = AllReduce(session, nullptr, 0);
  maypole_leave(session.get());  // from now on every answer makes a sentence
  {
    const OutOfMemory out;
    maypole_op* refused = nullptr;
    EXPECT_EQ(maypole_barrier(session.get(), nullptr, 0, &refused), MAYPOLE_RESOURCE_EXHAUSTED);
    EXPECT_EQ(maypole_test(op.get()), 1);
    EXPECT_EQ(maypole_wait_for(op.get(), 0), 1);
    EXPECT_EQ(maypole_wait(op.get()), MAYPOLE_RESOURCE_EXHAUSTED);
    op.reset();
    session.reset();
  }
}

}  // namespace
}  // namespace maypole::test
