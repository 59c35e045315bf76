// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/adamw.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

TEST(AdamW, ReadsAGradientAndUpdatesThreeNumbersAnElement) {
  const AdamW adamw{.parameters = 10};
  EXPECT_EQ(adamw.Step().bytes_read, 40);
  EXPECT_EQ(adamw.Step().bytes_updated, 120);
  EXPECT_EQ(adamw.StepCost().Bytes(), 280) << "28 bytes an element";
  EXPECT_EQ(adamw.StepCost().resident_bytes, 160);
}

}  // namespace
}  // namespace roofbench::workload
