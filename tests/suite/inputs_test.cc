// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/inputs.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "lib/aten/random.h"
#include "lib/base/text.h"
#include "tests/device/fake_device.h"

namespace roofbench {
namespace {

// Operands are drawn in blocks; a history of results needs the numbers that one draw of the whole gives.
TEST(Inputs, BlocksHoldTheNumbersOfOneDraw) {
  FakeDevice device;
  constexpr int64_t kBlock = 1 << 20;
  for (const int64_t elements : {int64_t{1}, int64_t{7}, kBlock - 1, kBlock, kBlock + 1, kBlock + 15, kBlock + 16,
                                 kBlock + 17, 2 * kBlock + 5}) {
    at::Generator generator = NewGenerator(at::kCPU, 5 ^ PortableHash("case"));
    const at::Tensor whole = at::randn({elements}, generator);
    const auto drawn = [&](workload::Dtype dtype, double scale) {
      return Inputs(device, 5, "case").Randn({elements}, dtype, scale);
    };
    EXPECT_TRUE(at::equal(drawn(workload::Dtype::kFp32, 1), whole)) << elements;
    EXPECT_TRUE(at::equal(drawn(workload::Dtype::kBf16, 0.5), whole.mul(0.5).to(at::kBFloat16))) << elements;
    EXPECT_TRUE(at::equal(drawn(workload::Dtype::kInt8, 1), whole.mul(32).round_().clamp_(-127, 127).to(at::kChar)))
        << elements;
  }
}

TEST(Inputs, ResultsAndDataHaveOneNameForEachType) {
  FakeDevice device;
  Inputs inputs(device, 5, "case");
  for (const workload::Dtype dtype : workload::kDtypes) {
    EXPECT_EQ(inputs.Empty({4}, dtype).scalar_type(), inputs.Randn({4}, dtype).scalar_type()) << Name(dtype);
  }
  EXPECT_EQ(inputs.Empty({4}, workload::Dtype::kInt8).scalar_type(), at::kChar);
}

TEST(Inputs, SuccessiveOperandsDiffer) {
  FakeDevice device;
  Inputs inputs(device, 5, "case");
  EXPECT_FALSE(at::equal(inputs.Randn({100}), inputs.Randn({100})));
}

}  // namespace
}  // namespace roofbench
