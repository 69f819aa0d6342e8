#include "agent/segment/data_segments.h"

#include <string>
#include <utility>

#include "agent/segment/sealed_memory.h"

namespace maypole::agent {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

std::uint64_t RoundToPages(std::uint64_t bytes) {
  return (bytes - 1) / kPageBytes * kPageBytes + kPageBytes;
}

Outcome Exhausted(std::string text) {
  return {ErrorCode::kResourceExhausted, std::move(text), ""};
}

}  // namespace

Outcome DataSegments::Add(std::uint64_t bytes, std::uint32_t& number, UniqueFd& fd) {
  if (bytes == 0) {
    return {ErrorCode::kInvalidArgument, "a segment of 0 bytes was asked for", ""};
  }
  if (segments_.size() >= limits_.segments) {
    return Exhausted("the session has " + std::to_string(segments_.size()) +
                     " segments, which is its limit: free some, or allocate larger pieces");
  }
  // In this order nothing overflows: bytes_ never exceeds the limit.
  if (bytes > limits_.bytes || RoundToPages(bytes) > limits_.bytes - bytes_) {
    return Exhausted(std::to_string(bytes) + " bytes were asked for, and the session has " +
                     std::to_string(bytes_) + " of at most " + std::to_string(limits_.bytes) +
                     " bytes (--segment-bytes-max of maypole-agent)");
  }
  const std::uint64_t rounded = RoundToPages(bytes);
  auto memory = CreateSealedMemory("maypole-data", rounded);
  if (!memory.ok()) {
    return Exhausted(std::string(memory.status().message()));
  }
  number = next_++;
  fd = std::move(memory->fd);
  segments_[number].region = std::move(memory->region);
  bytes_ += rounded;
  return {};
}

void DataSegments::Remove(std::uint32_t number) {
  const auto segment = segments_.find(number);
  if (segment != segments_.end()) {
    segment->second.is_removed = true;
    UnmapIfUnused(segment);
  }
}

BufferView DataSegments::Find(std::uint32_t number) const {
  const auto segment = segments_.find(number);
  if (segment == segments_.end() || segment->second.is_removed) {
    return {};
  }
  const MappedRegion& region = segment->second.region;
  return {MemoryKind::kHost, region.data(), region.size()};
}

void DataSegments::OpBegan(std::uint32_t number) {
  ++segments_.at(number).ops;
}

void DataSegments::OpEnded(std::uint32_t number) {
  const auto segment = segments_.find(number);
  if (segment == segments_.end()) {
    return;
  }
  --segment->second.ops;
  UnmapIfUnused(segment);
}

void DataSegments::UnmapIfUnused(std::map<std::uint32_t, Segment>::iterator segment) {
  const Segment& state = segment->second;
  if (state.is_removed && state.ops == 0) {
    bytes_ -= state.region.size();
    segments_.erase(segment);
  }
}

}  // namespace maypole::agent
