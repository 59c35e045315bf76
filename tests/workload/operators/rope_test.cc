// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/rope.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

TEST(Rope, HeadsShareTheTables) {
  const Rope work{.heads = 3, .tokens = 5, .head_dim = 8, .dtype = Dtype::kBf16};
  EXPECT_EQ(work.Forward().bytes_read, 240 + 160) << "x, cosines and sines";
  EXPECT_EQ(work.Forward().bytes_written, 240);
  EXPECT_EQ(work.ForwardCost().resident_bytes, 640);
  EXPECT_EQ(work.ForwardCost().Flops(Dtype::kFp32), 360) << "arithmetic is in fp32";
}

}  // namespace
}  // namespace roofbench::workload
