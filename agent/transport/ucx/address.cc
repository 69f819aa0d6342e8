#include "agent/transport/ucx/address.h"

#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/fnv.h"

namespace maypole::agent {
namespace {

constexpr std::uint32_t kMagic = 0x5559414d;  // "MAYU"
constexpr std::uint16_t kVersion = 1;

struct Envelope {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t reserved = 0;
  std::uint64_t checksum = 0;
};

static_assert(sizeof(Envelope) == 16);

}  // namespace

std::string WrapUcxAddress(std::string_view worker_address) {
  Envelope envelope;
  envelope.checksum = Fnv1a(worker_address);
  std::string address(sizeof(envelope), '\0');
  std::memcpy(address.data(), &envelope, sizeof(envelope));
  return address.append(worker_address);
}

absl::StatusOr<std::string> UnwrapUcxAddress(std::string_view address) {
  Envelope envelope;
  if (address.size() <= sizeof(envelope)) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a data address: ", address.size(), " bytes are too few"));
  }
  std::memcpy(&envelope, address.data(), sizeof(envelope));
  if (envelope.magic != kMagic) {
    return absl::InvalidArgumentError(
        "not a data address of a UCX transport: do all agents use the same transport?");
  }
  if (envelope.version != kVersion || envelope.reserved != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data address of version ", envelope.version, ", this agent speaks ", kVersion));
  }
  const std::string_view worker_address = address.substr(sizeof(envelope));
  if (envelope.checksum != Fnv1a(worker_address)) {
    return absl::InvalidArgumentError("damaged data address: its checksum does not match");
  }
  return std::string(worker_address);
}

}  // namespace maypole::agent
