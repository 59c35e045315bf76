// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/process_memory.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace roofbench::hardware {
namespace {

constexpr std::size_t kBytes = std::size_t{128} << 20;
// Slack for allocators, the system's late counting, and a sanitizer's shadow, an eighth of the touched memory.
constexpr double kSlack = 48 << 20;

TEST(ProcessMemory, ThePeakIsWhatWasTouchedSinceItBegan) {
  { const std::vector<std::byte> before(2 * kBytes, std::byte{1}); }  // a higher mark, from before
  const ProcessMemory memory;
  if (!memory.PeakBytes()) GTEST_SKIP() << "the system does not lower the high-water mark of a process";
  EXPECT_GT(memory.bytes_before(), 0);
  { const std::vector<std::byte> touched(kBytes, std::byte{1}); }
  const double grown = *memory.PeakBytes() - memory.bytes_before();
  EXPECT_GT(grown, static_cast<double>(kBytes) - kSlack);
  EXPECT_LT(grown, static_cast<double>(kBytes) + kSlack);
}

}  // namespace
}  // namespace roofbench::hardware
