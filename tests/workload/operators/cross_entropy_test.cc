// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/cross_entropy.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

TEST(CrossEntropy, TheGradientAddsOneWrite) {
  const CrossEntropy work{.rows = 3, .cols = 10, .dtype = Dtype::kBf16};
  EXPECT_EQ(work.Forward().bytes_read, 60 + 24) << "logits and targets";
  EXPECT_EQ(work.Forward().bytes_written, 12);
  EXPECT_EQ(work.ForwardBackward().bytes_read, 60 + 24);
  EXPECT_EQ(work.ForwardBackward().bytes_written, 12 + 60);
  EXPECT_EQ(work.ForwardCost().Flops(Dtype::kFp32), 120) << "arithmetic is in fp32";
  EXPECT_EQ(work.ForwardBackwardCost().Flops(Dtype::kFp32), 180);
  EXPECT_EQ(work.ForwardBackwardCost().resident_bytes, 84 + 72);
}

}  // namespace
}  // namespace roofbench::workload
