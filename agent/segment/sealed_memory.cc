#include "agent/segment/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace maypole::agent {
namespace {

absl::Status Exhausted(const char* call, std::size_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat(call, " of ", bytes, " bytes for a segment: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<SealedMemory> CreateSealedMemory(const char* name, std::size_t bytes) {
  SealedMemory memory;
  memory.fd.Reset(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.fd.valid()) {
    return Exhausted("memfd_create", bytes);
  }
  if (::ftruncate(memory.fd.get(), static_cast<off_t>(bytes)) != 0) {
    return Exhausted("ftruncate", bytes);
  }
  if (::fcntl(memory.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Exhausted("sealing", bytes);
  }
  memory.region = MappedRegion::Map(memory.fd.get(), bytes, MapAccess::kReadWrite);
  if (!memory.region.valid()) {
    return Exhausted("mmap", bytes);
  }
  return memory;
}

}  // namespace maypole::agent
