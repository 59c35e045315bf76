// SPDX-License-Identifier: Apache-2.0
#include "lib/device/cpu_device.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "lib/hardware/process_memory.h"

namespace roofbench {
namespace {

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
TEST(CpuDevice, AfterACaseFreedMemoryGoesBackToTheSystem) {
  CpuDevice device(1);
  // Below the mmap threshold, and an allocation that lives above them keeps the heap from shrinking.
  constexpr std::size_t kBlock = 64 << 10;
  constexpr std::size_t kBlocks = 2000;
  std::vector<std::unique_ptr<char[]>> blocks;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(std::make_unique<char[]>(kBlock));
    for (std::size_t at = 0; at < kBlock; at += 4096) blocks.back()[at] = 1;
  }
  const std::unique_ptr<char[]> last = std::move(blocks.back());
  blocks.clear();
  const double kept = hardware::ProcessMemory().bytes_before();
  device.AfterCase();
  EXPECT_LT(hardware::ProcessMemory().bytes_before(), kept - 0.9 * kBlock * kBlocks);
}
#endif

}  // namespace
}  // namespace roofbench
