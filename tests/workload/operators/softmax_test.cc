// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/softmax.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

TEST(Softmax, ReadsAndWritesEachElementOnce) {
  const Softmax softmax{.rows = 3, .cols = 10, .dtype = Dtype::kBf16};
  EXPECT_EQ(softmax.Forward().bytes_read, 60);
  EXPECT_EQ(softmax.Forward().bytes_written, 60);
  EXPECT_EQ(softmax.ForwardCost().Flops(Dtype::kFp32), 150) << "arithmetic is in fp32";
  EXPECT_EQ(softmax.ForwardCost().resident_bytes, 120);
}

}  // namespace
}  // namespace roofbench::workload
