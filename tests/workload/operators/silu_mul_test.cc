// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/silu_mul.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

TEST(SiluMul, ReadsTwoOperandsAndWritesOne) {
  const SiluMul work{.elements = 10, .dtype = Dtype::kBf16};
  EXPECT_EQ(work.Forward().bytes_read, 40);
  EXPECT_EQ(work.Forward().bytes_written, 20);
  EXPECT_EQ(work.ForwardCost().resident_bytes, 60);
  EXPECT_EQ(work.ForwardCost().Flops(Dtype::kFp32), 60) << "arithmetic is in fp32";
}

}  // namespace
}  // namespace roofbench::workload
