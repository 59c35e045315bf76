// SPDX-License-Identifier: Apache-2.0
#include "lib/run/library_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(LibraryWarnings, EachTextIsSaidOnce) {
  const c10::WarningUtils::WarnAlways every_time;
  LibraryWarnings warnings;
  EXPECT_THAT(warnings.Take(), IsEmpty());
  for (int i = 0; i < 3; ++i) TORCH_WARN("deprecated\n\033[31m");
  TORCH_WARN("slow");
  EXPECT_THAT(warnings.Take(), ElementsAre(R"(LibTorch warns: deprecated\x0a\x1b[31m)", "LibTorch warns: slow"));
  TORCH_WARN("slow");
  EXPECT_THAT(warnings.Take(), IsEmpty());
}

TEST(LibraryWarnings, ATextThatAlwaysChangesFillsNoConsole) {
  const c10::WarningUtils::WarnAlways every_time;
  LibraryWarnings warnings;
  for (int i = 0; i < 1000; ++i) TORCH_WARN("step ", i, std::string(10'000, 'x'));
  const std::vector<std::string> said = warnings.Take();
  EXPECT_THAT(said, SizeIs(100));
  EXPECT_LE(said.front().size(), 600);
}

TEST(LibraryWarnings, EndsWithItsLife) {
  const c10::WarningHandler* const before = c10::WarningUtils::get_warning_handler();
  { const LibraryWarnings warnings; }
  EXPECT_EQ(c10::WarningUtils::get_warning_handler(), before);
}

}  // namespace
}  // namespace roofbench
