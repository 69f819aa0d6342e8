#include "agent/segment/listener.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace maypole::agent {
namespace {

constexpr int kBacklog = 512;
constexpr mode_t kSocketMode = 0666;

absl::Status Unavailable(const std::string& what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat(what, " '", path, "': ", std::strerror(errno)));
}

UniqueFd OpenSocket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int Bind(int fd, const sockaddr_un& address) {
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

// Whether the socket at `path` may be taken away: only if whoever listened there has ended.
absl::Status CheckDead(const std::string& path) {
  const sockaddr_un address = AddressOf(path);
  const UniqueFd probe = OpenSocket();
  const bool answers =
      probe.valid() &&
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  if (answers || errno == EAGAIN) {  // EAGAIN: a full backlog of one that lives
    return absl::AlreadyExistsError(absl::StrCat("an agent already runs at '",
                                                 path,
                                                 "': one per node is enough; stop it first, or "
                                                 "choose another path by --socket"));
  }
  if (errno == EPROTOTYPE) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", path, "' is another program's socket; choose another path by --socket"));
  }
  if (errno != ECONNREFUSED && errno != ENOENT) {
    return Unavailable("cannot tell whether an agent runs at", path);
  }
  return absl::OkStatus();
}

// Locks the directory, so that of two agents that start at once one sees the other's socket.
UniqueFd LockDirectory(const std::string& path) {
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid() && ::flock(directory.get(), LOCK_EX) != 0) {
    directory.Reset();
  }
  return directory;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Create(const std::string& path) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("socket path '",
                                                   path,
                                                   "' has ",
                                                   path.size(),
                                                   " bytes; it must have 1 .. ",
                                                   sizeof(sockaddr_un::sun_path) - 1));
  }
  const std::filesystem::path parent = std::filesystem::absolute(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  const UniqueFd lock = LockDirectory(parent);
  if (!lock.valid()) {
    return Unavailable("cannot use the socket's directory", parent);
  }
  auto listener = std::unique_ptr<Listener>(new Listener(path));
  if (absl::Status opened = listener->Open(); !opened.ok()) {
    return opened;
  }
  return listener;
}

absl::Status Listener::Open() {
  if (absl::Status cleared = ClearPath(); !cleared.ok()) {
    return cleared;
  }
  fd_ = OpenSocket();
  reserve_.Reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!fd_.valid() || !reserve_.valid() || Bind(fd_.get(), AddressOf(path_)) != 0) {
    return Unavailable("cannot listen at", path_);
  }

  struct stat status {};

  if (::stat(path_.c_str(), &status) == 0) {
    device_ = status.st_dev;
    inode_ = status.st_ino;
  }
  if (::chmod(path_.c_str(), kSocketMode) != 0 || ::listen(fd_.get(), kBacklog) != 0) {
    return Unavailable("cannot listen at", path_);
  }
  return absl::OkStatus();
}

absl::Status Listener::ClearPath() {
  struct stat status {};

  if (::lstat(path_.c_str(), &status) != 0) {
    return absl::OkStatus();
  }
  if (!S_ISSOCK(status.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", path_, "' exists and is not a socket; remove it or choose another path by --socket"));
  }
  if (absl::Status dead = CheckDead(path_); !dead.ok()) {
    return dead;
  }
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) {
    return Unavailable("cannot remove the socket that a dead agent left at", path_);
  }
  return absl::OkStatus();
}

Listener::~Listener() {
  struct stat status {};

  if (inode_ != 0 && ::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ &&
      status.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
}

UniqueFd Listener::Accept() {
  UniqueFd accepted(::accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!accepted.valid() && (errno == EMFILE || errno == ENFILE)) {
    reserve_.Reset();
    UniqueFd(::accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)).Reset();
    reserve_.Reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  return accepted;
}

}  // namespace maypole::agent
