#include "proto/frame.h"

#include <array>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace maypole {
namespace {

using Bytes = std::array<std::byte, sizeof(FrameHeader)>;

FrameHeader Sample() {
  FrameHeader header;
  header.kind = FrameKind::kData;
  header.flags = 0x5a;
  header.token = 0x0102030405060708;
  header.epoch = 0x11121314;
  header.sender = 0x21222324;
  header.op = 0x3132333435363738;
  header.occurrence = 0x4142434445464748;
  header.ordinal = 0x51525354;
  header.payload_bytes = 0x6162636465666768;
  return header;
}

Bytes Encode(const FrameHeader& header) {
  Bytes bytes;
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

TEST(FrameHeader, DecodesWhatWasEncoded) {
  const auto decoded = DecodeFrameHeader(Encode(Sample()));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(Encode(*decoded), Encode(Sample()));
}

// docs/wire_format.md shows these bytes. A change here needs a new kFrameVersion.
TEST(FrameHeader, KeepsItsBytes) {
  const std::vector<int> expected = {
      'M',  'A',  'Y',  'F',  3,    0,    3,    0x5a,   // magic, version, kind, flags
      0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,   // token
      0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21,   // epoch, sender
      0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31,   // op
      0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41,   // occurrence
      0x54, 0x53, 0x52, 0x51, 0,    0,    0,    0,      // ordinal, reserved
      0x68, 0x67, 0x66, 0x65, 0x64, 0x63, 0x62, 0x61};  // payload bytes
  const Bytes bytes = Encode(Sample());
  ASSERT_EQ(bytes.size(), expected.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(static_cast<int>(bytes[i]), expected[i]) << "offset " << i;
  }
}

TEST(FrameHeader, RefusesOtherSizes) {
  std::vector<std::byte> bytes(sizeof(FrameHeader) + 8);
  const Bytes good = Encode(Sample());
  std::memcpy(bytes.data(), good.data(), good.size());
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    EXPECT_EQ(DecodeFrameHeader({bytes.data(), size}).has_value(), size == sizeof(FrameHeader));
  }
}

TEST(FrameHeader, RefusesForeignMagicVersionKindAndReserved) {
  // Every bit of magic (0-3), version (4-5) and reserved (44-47) matters; of kind (6) only its
  // range.
  for (const std::size_t offset : {0, 1, 2, 3, 4, 5, 44, 45, 46, 47}) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes bytes = Encode(Sample());
      bytes[offset] ^= static_cast<std::byte>(1 << bit);
      EXPECT_FALSE(DecodeFrameHeader(bytes).has_value()) << "offset " << offset << " bit " << bit;
    }
  }
  for (int kind = 0; kind < 256; ++kind) {
    Bytes bytes = Encode(Sample());
    bytes[6] = static_cast<std::byte>(kind);
    EXPECT_EQ(DecodeFrameHeader(bytes).has_value(), kind >= 1 && kind <= 8) << kind;
  }
}

}  // namespace
}  // namespace maypole
