// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/sampled_rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <random>

#include "lib/aten/random.h"

namespace roofbench {
namespace {

TEST(SampledRows, AreDrawnAnewInPlace) {
  at::Generator generator = NewGenerator(at::kCPU, 1);
  const at::Tensor some = SampleRowNumbers(1000, 20, generator);
  const at::Tensor all = SampleRowNumbers(20, 20, generator);
  KeepSampledRows(some, 1000);
  KeepSampledRows(all, 20);
  const at::Tensor before = some.clone();
  std::mt19937_64 random(1);
  DrawSampledRows(random);
  EXPECT_FALSE(at::equal(some, before));
  EXPECT_TRUE((some.diff() > 0).all().item<bool>()) << "sorted, each once";
  EXPECT_GE(some.min().item<int64_t>(), 0);
  EXPECT_LT(some.max().item<int64_t>(), 1000);
  EXPECT_TRUE(at::equal(all, at::arange(20, at::kLong)));
}

}  // namespace
}  // namespace roofbench
