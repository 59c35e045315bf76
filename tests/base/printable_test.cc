// SPDX-License-Identifier: Apache-2.0
#include "lib/base/printable.h"

#include <gtest/gtest.h>

namespace roofbench {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  for (const char* text : {"", "plain \\ text", "Größe ½ 你好 🙂", "n:16/d:64"}) {
    EXPECT_EQ(Printable(text), text);
    EXPECT_TRUE(IsPrintable(text));
  }
}

TEST(Printable, EscapesWhatATerminalOrAReaderActsUpon) {
  EXPECT_EQ(Printable("a\x1b[31mb\n\t\x7f"), R"(a\x1b[31mb\x0a\x09\x7f)");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            R"(\xc2\x9b31m)")
      << "the one-byte form of ESC [ has two bytes in UTF-8";
  EXPECT_EQ(Printable("\xe2\x80\xae"), R"(\xe2\x80\xae)") << "what follows would run from right to left";
  EXPECT_EQ(Printable("\xef\xbb\xbf"), R"(\xef\xbb\xbf)");
}

TEST(Printable, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(Printable("\xff"
                      "a\x80"),
            R"(\xffa\x80)");
  EXPECT_EQ(Printable("\xc0\xaf"), R"(\xc0\xaf)") << "too long a form of a slash";
  EXPECT_EQ(Printable("\xe0\x80\xaf"), R"(\xe0\x80\xaf)");
  EXPECT_EQ(Printable("\xed\xa0\x80"), R"(\xed\xa0\x80)") << "half of a surrogate";
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), R"(\xf4\x90\x80\x80)") << "beyond the last code";
  EXPECT_EQ(Printable("\xe4\xbd"), R"(\xe4\xbd)") << "cut off";
  EXPECT_FALSE(IsPrintable("\xe4\xbd"));
}

}  // namespace
}  // namespace roofbench
