// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/gelu.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

TEST(Gelu, MovesEachOperandOnce) {
  const Gelu gelu{.elements = 10, .dtype = Dtype::kBf16};
  EXPECT_EQ(gelu.Forward().bytes_read, 20);
  EXPECT_EQ(gelu.Forward().bytes_written, 20);
  EXPECT_EQ(gelu.Backward().bytes_read, 40);
  EXPECT_EQ(gelu.ForwardCost().resident_bytes, 40);
  EXPECT_EQ(gelu.ForwardCost().Flops(Dtype::kFp32), 80) << "arithmetic is in fp32";
}

}  // namespace
}  // namespace roofbench::workload
