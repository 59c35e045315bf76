// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/embedding.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

TEST(Embedding, ReadsRowsOfALargerTable) {
  const Embedding work{.vocabulary = 100, .tokens = 3, .cols = 8, .dtype = Dtype::kBf16};
  EXPECT_EQ(work.Forward().bytes_read, 48 + 24) << "rows and indices";
  EXPECT_EQ(work.Forward().bytes_written, 48);
  EXPECT_EQ(work.ForwardCost().resident_bytes, 1600 + 24 + 48);
  EXPECT_EQ(work.ForwardCost().Flops(), 0);
}

}  // namespace
}  // namespace roofbench::workload
