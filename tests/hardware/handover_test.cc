// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/conditions/handover.h"

#include <gtest/gtest.h>

#include <optional>

#include "lib/kernels/threading/thread_pool.h"

namespace roofbench::hardware {
namespace {

TEST(Handover, IsOfThreadsThatRunAtTheSameTime) {
  EXPECT_EQ(HandoverSeconds(1), std::nullopt);
  EXPECT_EQ(HandoverSeconds(kernels::Processors() + 1), std::nullopt);
  if (kernels::Processors() < 2) GTEST_SKIP() << "one processor";
  std::optional<double> seconds;
  while (!seconds) seconds = HandoverSeconds(2);  // none where another program takes a processor for too long
  EXPECT_GT(*seconds, 0);
}

}  // namespace
}  // namespace roofbench::hardware
