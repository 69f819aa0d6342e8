#include "proto/announce.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "proto/segment_layout.h"

namespace maypole {
namespace {

class Writer {
 public:
  template <typename T>
  void Put(T value) {
    static_assert(std::is_integral_v<T>);
    const auto at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }

  void PutText(std::string_view text) {
    text = text.substr(0, 0xffff);
    Put(static_cast<std::uint16_t>(text.size()));
    const auto at = bytes_.size();
    bytes_.resize(at + text.size());
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), bytes_.data() + at);
  }

  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    T value = 0;
    if (!ok_ || bytes_.size() < sizeof(T)) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }

  std::string GetText() {
    const std::size_t count = Get<std::uint16_t>();
    if (!ok_ || bytes_.size() < count) {
      ok_ = false;
      return {};
    }
    std::string text(reinterpret_cast<const char*>(bytes_.data()), count);
    bytes_ = bytes_.subspan(count);
    return text;
  }

  std::size_t left() const { return bytes_.size(); }

  bool ok() const { return ok_; }

  bool Finished() const { return ok_ && bytes_.empty(); }

  void Refuse() { ok_ = false; }

 private:
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

AnnounceGroup ReadGroup(Reader& reader) {
  AnnounceGroup group;
  group.shape.collective = reader.Get<std::uint8_t>();
  const auto dtype = DTypeFromNumber(reader.Get<std::uint8_t>());
  const auto reduction = ReductionFromNumber(reader.Get<std::uint8_t>());
  group.shape.algorithm = reader.Get<std::uint8_t>();
  group.shape.root = reader.Get<std::uint32_t>();
  group.shape.peer = reader.Get<std::uint32_t>();
  group.shape.elements = reader.Get<std::uint64_t>();
  group.shape.counts = reader.Get<std::uint64_t>();
  const std::uint32_t ranks = reader.Get<std::uint32_t>();
  if (!dtype || !reduction || ranks == 0 || std::uint64_t{ranks} * 4 > reader.left()) {
    reader.Refuse();
    return group;
  }
  group.shape.dtype = *dtype;
  group.shape.reduction = *reduction;
  for (std::uint32_t i = 0; i < ranks; ++i) {
    group.ranks.emplace_back(reader.Get<std::uint32_t>());
  }
  const std::size_t blocks = reader.Get<std::uint8_t>();
  if (blocks > kAnnounceBlocksMax) {
    reader.Refuse();
  }
  for (std::size_t i = 0; i < blocks && reader.ok(); ++i) {
    group.blocks.push_back(reader.Get<std::uint64_t>());
  }
  return group;
}

}  // namespace

std::vector<std::byte> EncodeAnnounce(const Announce& announce) {
  Writer writer;
  writer.PutText(announce.name);
  writer.Put(announce.algorithm);
  writer.Put(announce.slice_bytes);
  writer.Put(static_cast<std::uint16_t>(announce.groups.size()));
  for (const AnnounceGroup& group : announce.groups) {
    writer.Put(group.shape.collective);
    writer.Put(static_cast<std::uint8_t>(group.shape.dtype));
    writer.Put(static_cast<std::uint8_t>(group.shape.reduction));
    writer.Put(group.shape.algorithm);
    writer.Put(group.shape.root);
    writer.Put(group.shape.peer);
    writer.Put(std::uint64_t{group.shape.elements});
    writer.Put(group.shape.counts);
    writer.Put(static_cast<std::uint32_t>(group.ranks.size()));
    for (const Rank rank : group.ranks) {
      writer.Put(rank.value());
    }
    writer.Put(static_cast<std::uint8_t>(group.blocks.size()));
    for (const ElementCount block : group.blocks) {
      writer.Put(std::uint64_t{block});
    }
  }
  return writer.Take();
}

std::optional<Announce> DecodeAnnounce(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Announce announce;
  announce.name = reader.GetText();
  announce.algorithm = reader.Get<std::uint8_t>();
  announce.slice_bytes = reader.Get<std::uint32_t>();
  const std::size_t groups = reader.Get<std::uint16_t>();
  for (std::size_t i = 0; i < groups && reader.ok(); ++i) {
    announce.groups.push_back(ReadGroup(reader));
  }
  if (!reader.Finished() || announce.name.size() > kNameBytesMax) {
    return std::nullopt;
  }
  return announce;
}

std::vector<std::byte> EncodeOutcome(const Outcome& outcome) {
  Writer writer;
  writer.Put(static_cast<std::uint8_t>(outcome.code));
  writer.PutText(outcome.text);
  writer.PutText(outcome.culprits);
  return writer.Take();
}

std::optional<Outcome> DecodeOutcome(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Outcome outcome;
  const auto code = reader.Get<std::uint8_t>();
  outcome.text = reader.GetText();
  outcome.culprits = reader.GetText();
  if (!reader.Finished() || code == 0 || code > static_cast<std::uint8_t>(ErrorCode::kInternal)) {
    return std::nullopt;
  }
  outcome.code = static_cast<ErrorCode>(code);
  return outcome;
}

}  // namespace maypole
