#include "client/src/fork_guard.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <new>

namespace maypole::client::internal {

// Everything here is shared by all sessions of the process, because fork is.
struct ForkHandlers {
  std::mutex mutex;  // held across fork, so that the child sees a whole list
  GuardedFd* first = nullptr;
  std::uint64_t last_generation = 0;  // inherited by children
  // On a page that the kernel wipes in a child: 0 there until the child asks for a generation of
  // its own.
  std::atomic<std::uint64_t>* generation = nullptr;

  static ForkHandlers& Instance() {
    static ForkHandlers* handlers = new ForkHandlers;  // never destroyed: threads may outlive main
    return *handlers;
  }

  ForkHandlers() {
    void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
      throw std::bad_alloc();
    }
    ::madvise(page, 4096, MADV_WIPEONFORK);
    generation = new (page) std::atomic<std::uint64_t>(0);
    ::pthread_atfork([] { Instance().mutex.lock(); },
                     [] { Instance().mutex.unlock(); },
                     [] { Instance().AfterForkInChild(); });
  }

  void AfterForkInChild() {
    generation->store(0);
    for (GuardedFd* fd = first; fd != nullptr; fd = fd->next_) {
      if (fd->get() >= 0) {
        ::close(fd->get());
        fd->fd_.store(-1);
      }
    }
    mutex.unlock();
  }
};

std::uint64_t ProcessGeneration() {
  ForkHandlers& handlers = ForkHandlers::Instance();
  const std::uint64_t generation = handlers.generation->load();
  if (generation != 0) {
    return generation;
  }
  const std::lock_guard lock(handlers.mutex);
  if (handlers.generation->load() == 0) {
    handlers.generation->store(++handlers.last_generation);
  }
  return handlers.generation->load();
}

GuardedFd::GuardedFd() {
  ForkHandlers& handlers = ForkHandlers::Instance();
  const std::lock_guard lock(handlers.mutex);
  next_ = handlers.first;
  if (next_ != nullptr) {
    next_->previous_ = this;
  }
  handlers.first = this;
}

GuardedFd::~GuardedFd() {
  Close();
  ForkHandlers& handlers = ForkHandlers::Instance();
  const std::lock_guard lock(handlers.mutex);
  (previous_ == nullptr ? handlers.first : previous_->next_) = next_;
  if (next_ != nullptr) {
    next_->previous_ = previous_;
  }
}

void GuardedFd::Open(int (*open)(int), int argument) {
  const std::lock_guard lock(ForkHandlers::Instance().mutex);
  fd_.store(open(argument));
}

void GuardedFd::Close() {
  const std::lock_guard lock(ForkHandlers::Instance().mutex);
  if (get() >= 0) {
    ::close(get());
    fd_.store(-1);
  }
}

}  // namespace maypole::client::internal
