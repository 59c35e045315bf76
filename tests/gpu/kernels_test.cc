// SPDX-License-Identifier: Apache-2.0
// Every variant of our own stream kernels with small buffers, also run by compute-sanitizer.

#include <gtest/gtest.h>

#include "lib/hardware/roofs/gpu_roof_meter.h"
#include "tests/gpu/gpu_test.h"

namespace roofbench {
namespace {

class KernelsTest : public GpuTest {};

TEST_F(KernelsTest, StreamsAreRight) {
  constexpr double kSmallL2 = 1 << 18;
  constexpr double kSmallMemory = 64 << 20;
  hardware::GpuRoofMeter meter(gpu().streams(), kSmallL2, kSmallMemory);
  EXPECT_EQ(meter.CheckStreams(), "");
  // A few passes in memory and in a cache, as probes use them.
  EXPECT_GT(meter.MeasureMemory({.read = 1, .copy = 1, .update = 1, .write = 1}, 1e-4), 0);
  EXPECT_GT(meter.MeasureCache({.read = 1, .copy = 1, .update = 1, .write = 1}, kSmallL2 / 2, 1e-4), 0);
}

TEST_F(KernelsTest, SpinEnds) {
  gpu().Spin(1e-3);
  gpu().Synchronize();
}

}  // namespace
}  // namespace roofbench
