// Owns one file descriptor. Empty (-1) is a valid state, so that a failed open can be returned.
#pragma once

#include <utility>

namespace maypole {

class UniqueFd {
 public:
  UniqueFd() = default;

  explicit UniqueFd(int fd) : fd_(fd) {}

  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}

  UniqueFd& operator=(UniqueFd&& other) noexcept {
    Reset(other.Release());
    return *this;
  }

  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }

  bool valid() const { return fd_ >= 0; }

  int Release() { return std::exchange(fd_, -1); }

  // Closes what is held and takes over `fd`.
  void Reset(int fd = -1);

 private:
  int fd_ = -1;
};

}  // namespace maypole
