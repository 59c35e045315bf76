// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text.h"

#include <gtest/gtest.h>

namespace roofbench {
namespace {

// The vectors of the hash's authors (http://www.isthe.com/chongo/src/fnv/test_fnv.c).
TEST(PortableHash, IsFnv1a) {
  EXPECT_EQ(PortableHash(""), 0xcbf29ce484222325);
  EXPECT_EQ(PortableHash("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(PortableHash("foobar"), 0x85944171f73967e8);
}

TEST(Text, ThreeDigitsInTheRightUnit) {
  EXPECT_EQ(HumanTime(12.34e-6), "12.3 µs");
  EXPECT_EQ(HumanTime(0.999e-3), "999 µs");
  EXPECT_EQ(HumanTime(2), "2.00 s");
  EXPECT_EQ(HumanTime(4e-10), "0.40 ns");
  EXPECT_EQ(HumanBytes(1.5 * (1 << 30)), "1.50 GiB");
  EXPECT_EQ(HumanRate(987.6e9, "FLOP/s"), "988 GFLOP/s");
  EXPECT_EQ(HumanRate(0, "B/s"), "0.00 B/s");
}

TEST(Text, FirstLineEndsBeforeItsNewline) {
  EXPECT_EQ(FirstLine("one\ntwo"), "one");
  EXPECT_EQ(FirstLine(""), "");
}

TEST(Text, WrappedAtItsPieces) {
  const std::vector<std::string> pieces = {"two words,", "one", "a long piece of text", "x"};
  EXPECT_EQ(Wrapped(pieces, 14), (std::vector<std::string>{"two words, one", "a long piece of text", "x"}));
  EXPECT_EQ(Wrapped(pieces, 13), (std::vector<std::string>{"two words,", "one", "a long piece of text", "x"}));
  EXPECT_TRUE(Wrapped({}, 10).empty());
}

TEST(Text, NumbersAreSeparatedByCommasOrWhiteSpace) {
  const std::vector<int64_t> numbers = {1, 2, 30, 4, 0, 5000000000};
  EXPECT_EQ(ParseNumbers(" 1,2 30\r\n4\t0, 5000000000\n", "a count").value(), numbers);
  EXPECT_TRUE(ParseNumbers("", "a count").value().empty());
  for (const std::string wrong : {"x", "-1", "1.5", "99999999999999999999", "1;2"}) {
    EXPECT_EQ(ParseNumbers("7," + wrong, "a count").status().message(), wrong + " is not a count; expected 1,2,3");
  }
  EXPECT_EQ(ParseNumbers(std::string(41, '\x1b'), "a count").status().message().substr(0, 8), R"(\x1b\x1b)");
  EXPECT_LT(ParseNumbers(std::string(10'000, 'x'), "a count").status().message().size(), 100);
}

TEST(Text, AnExcerptSaysThatItIsNotAll) {
  EXPECT_EQ(Excerpt("µµµ", 3), "µµµ");
  EXPECT_EQ(Excerpt("µµµµ", 3), "µµµ…");
  EXPECT_EQ(Excerpt("a\x1b", 5), "a\\x1b");
  EXPECT_EQ(Excerpt("a\x1b", 3), "a\\x…");
  for (const std::string bytes : {"x", "\x80", "\U0001f600", "\U0001d400"}) {
    std::string many;
    for (int i = 0; i < 100; ++i) many += bytes;
    EXPECT_EQ(DisplayWidth(Excerpt(many, 10)), 11) << bytes;
  }
}

TEST(Text, NearestOrEmpty) {
  EXPECT_EQ(Nearest("benchmark_fliter", {"benchmark_filter", "benchmark_out"}), "benchmark_filter");
  EXPECT_EQ(Nearest("zebra", {"benchmark_filter", "axis"}), "");
}

TEST(Text, ACharacterIsAColumn) {
  EXPECT_EQ(DisplayWidth("3.37 µs"), 7);
  EXPECT_EQ(PadLeft("3.37 µs", 9), "  3.37 µs");
  EXPECT_EQ(PadRight("µs", 4), "µs  ");
  EXPECT_EQ(Clipped("µµµ", 2), "µµ");
}

TEST(Printable, LeavesTextAsItIs) {
  for (const char* text : {"", "plain \\ text", "Größe ½ 你好 🙂", "n:16/d:64"}) {
    EXPECT_EQ(Printable(text), text);
    EXPECT_TRUE(IsPrintable(text));
  }
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(Printable("a\x1b[31mb\n\t\x7f"), R"(a\x1b[31mb\x0a\x09\x7f)");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            R"(\xc2\x9b31m)")
      << "the one-character form of ESC [";
  EXPECT_EQ(Printable("\xe2\x80\xae"), R"(\xe2\x80\xae)") << "right-to-left override";
  EXPECT_EQ(Printable("\xef\xbb\xbf"), R"(\xef\xbb\xbf)");
}

TEST(Printable, EscapesInvalidUtf8) {
  EXPECT_EQ(Printable("\xff"
                      "a\x80"),
            R"(\xffa\x80)");
  EXPECT_EQ(Printable("\xc0\xaf"), R"(\xc0\xaf)") << "overlong slash";
  EXPECT_EQ(Printable("\xe0\x80\xaf"), R"(\xe0\x80\xaf)");
  EXPECT_EQ(Printable("\xed\xa0\x80"), R"(\xed\xa0\x80)") << "surrogate";
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), R"(\xf4\x90\x80\x80)") << "beyond U+10FFFF";
  EXPECT_EQ(Printable("\xe4\xbd"), R"(\xe4\xbd)") << "truncated";
  EXPECT_FALSE(IsPrintable("\xe4\xbd"));
}

}  // namespace
}  // namespace roofbench
