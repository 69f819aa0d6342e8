#include "cli/bench/board.h"

#include <sys/mman.h>
#include <unistd.h>

namespace maypole::cli {
namespace {

constexpr std::size_t kHeaderBytes = 64;

std::size_t BytesOf(std::uint32_t ranks) {
  return kHeaderBytes + ranks * sizeof(RankCell);
}

}  // namespace

UniqueFd Board::Make(std::uint32_t ranks) {
  UniqueFd fd(memfd_create("maypole-bench", MFD_CLOEXEC));
  if (fd.valid() && ftruncate(fd.get(), static_cast<off_t>(BytesOf(ranks))) != 0) {
    fd.Reset();
  }
  return fd;
}

Board Board::Map(int fd, std::uint32_t ranks) {
  Board board;
  board.region_ = MappedRegion::Map(fd, BytesOf(ranks), MapAccess::kReadWrite);
  board.ranks_ = ranks;
  return board;
}

std::span<RankCell> Board::cells() const {
  return {reinterpret_cast<RankCell*>(region_.data() + kHeaderBytes), ranks_};
}

std::uint64_t& Board::warm_ups() const {
  return reinterpret_cast<std::uint64_t*>(region_.data())[0];
}

std::uint64_t& Board::iterations() const {
  return reinterpret_cast<std::uint64_t*>(region_.data())[1];
}

}  // namespace maypole::cli
