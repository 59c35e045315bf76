// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/reporters/layout.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace roofbench {
namespace {

using testing::ElementsAre;

TEST(Layout, ColumnsSaysTheWidth) {
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  unsetenv("COLUMNS");
  EXPECT_EQ(TerminalWidth(file), 120) << "a file has none";
  setenv("COLUMNS", "100", 1);
  EXPECT_EQ(TerminalWidth(file), 100);
  setenv("COLUMNS", "3", 1);
  EXPECT_EQ(TerminalWidth(file), 40);
  setenv("COLUMNS", "many", 1);
  EXPECT_EQ(TerminalWidth(file), 120);
  unsetenv("COLUMNS");
  close(file);
}

TEST(Layout, NamesBreakBeforeASlash) {
  EXPECT_THAT(NameLines("  short", 20, "    "), ElementsAre("  short"));
  EXPECT_THAT(NameLines("  impl:eager/dtype:fp32/n:1024", 20, "    "),
              ElementsAre("  impl:eager", "    /dtype:fp32", "    /n:1024"));
  for (const std::string& line : NameLines(std::string(100, 'x'), 20, "    ")) EXPECT_LE(line.size(), 20);
}

}  // namespace
}  // namespace roofbench
