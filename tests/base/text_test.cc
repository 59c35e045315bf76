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

TEST(Text, FirstAndLastLine) {
  EXPECT_EQ(FirstLine("one\ntwo"), "one");
  EXPECT_EQ(FirstLine(""), "");
  EXPECT_EQ(LastLine("one\ntwo\n \n"), "two");
  EXPECT_EQ(LastLine("\n"), "");
}

TEST(Text, WrappedAtItsPieces) {
  const std::vector<std::string> pieces = {"two words,", "one", "a long piece of text", "x"};
  EXPECT_EQ(Wrapped(pieces, 14), (std::vector<std::string>{"two words, one", "a long piece of text", "x"}));
  EXPECT_EQ(Wrapped(pieces, 13), (std::vector<std::string>{"two words,", "one", "a long piece of text", "x"}));
  EXPECT_TRUE(Wrapped({}, 10).empty());
}

TEST(Text, NearestIsNearOrNothing) {
  EXPECT_EQ(Nearest("benchmark_fliter", {"benchmark_filter", "benchmark_out"}), "benchmark_filter");
  EXPECT_EQ(Nearest("zebra", {"benchmark_filter", "axis"}), "");
}

}  // namespace
}  // namespace roofbench
