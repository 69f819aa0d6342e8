#include "proto/text.h"

#include <string>

#include <gtest/gtest.h>

namespace maypole {
namespace {

TEST(Text, PrintableUtf8IsAccepted) {
  for (const char* text : {"", "a", "layer1.weight", "größe", "層", "\U0001F3A1", "\xed\x9f\xbf"}) {
    EXPECT_TRUE(IsPrintableUtf8(text)) << text;
  }
}

TEST(Text, ControlCharactersAndMalformedUtf8AreRefused) {
  for (const char* text : {"\n",
                           "a\x7f",
                           "\x80",              // continuation first
                           "\xc3",              // ends within a character
                           "\xc0\xaf",          // overlong '/'
                           "\xe0\x80\xaf",      // overlong
                           "\xf0\x80\x80\xaf",  // overlong
                           "\xed\xa0\x80",      // surrogate
                           "\xf4\x90\x80\x80",  // beyond U+10FFFF
                           "\xff"}) {
    EXPECT_FALSE(IsPrintableUtf8(text));
  }
  EXPECT_FALSE(IsPrintableUtf8(std::string_view("a\0b", 3)));
}

TEST(Text, ALongTextIsCutBetweenCharacters) {
  EXPECT_EQ(CutUtf8("größe", 7), "größe");
  EXPECT_EQ(CutUtf8("größe", 6), "größ");
  EXPECT_EQ(CutUtf8("größe", 5), "grö");
  EXPECT_EQ(CutUtf8("größe", 3), "gr");
  EXPECT_EQ(CutUtf8("", 0), "");
}

TEST(Text, AFieldIsFilledAndReadWithinItsBounds) {
  char field[4];
  EXPECT_EQ(StoreText(field, "abcdef"), 4u);
  EXPECT_EQ(LoadText(field, 4), "abcd");
  EXPECT_EQ(LoadText(field, 1u << 31), "abcd");  // a length from elsewhere
  EXPECT_EQ(LoadTerminated(field), "abcd");      // not terminated
  EXPECT_EQ(StoreText(field, "a"), 1u);
  EXPECT_EQ(LoadTerminated(field), "a");
}

}  // namespace
}  // namespace maypole
