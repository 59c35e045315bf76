// SPDX-License-Identifier: Apache-2.0
// Correctly rounded gradients pass with every seed, though first rows of causal gradients are far larger than the
// others, and a wrong row is found wherever it lies.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "lib/device/cpu_device.h"
#include "lib/suite/check.h"
#include "lib/suite/family.h"
#include "lib/suite/inputs.h"
#include "tests/suite/run_once.h"

namespace roofbench {
namespace {

constexpr int64_t kKeys = 384;

void ExpectRightAloneAsItIs(const std::string& impl, const std::string& queries, uint64_t seed) {
  const Family& family = FamilyNamed("attention");
  const Point point = family.Points(Suite::kFull)[0]
                          .With("impl", impl)
                          .With("pass", "backward")
                          .With("dtype", "bf16")
                          .With("mask", "causal")
                          .With("batch", "1")
                          .With("heads", "4")
                          .With("kv_heads", "2")
                          .With("queries", queries)
                          .With("keys", std::to_string(kKeys))
                          .With("d", "64");
  CpuDevice device(1);
  Inputs inputs(device, seed, point.Name());
  const auto built = family.BuildAt(point, inputs);
  ASSERT_TRUE(built.ok()) << built.status();
  RunOnce(*built);
  const absl::Status right = CheckCase(*built);
  EXPECT_TRUE(right.ok()) << right;
  for (const int64_t row : {0, 100, 190}) {
    // One fault in each gradient.
    EXPECT_FALSE(CheckCase(*built, {.result = [&](at::Tensor& x) { x.select(-2, row).select(0, 1).mul_(2); }}).ok());
  }
}

TEST(AttentionGradients, AreRightWithEverySeed) {
  for (const char* impl : {"native", "sdpa", "naive"}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(testing::Message() << impl << " " << seed);
      ExpectRightAloneAsItIs(impl, std::to_string(kKeys), seed);
    }
  }
  // Not sdpa: LibTorch aligns the causal mask at the first query, also with fewer queries than keys.
  for (const char* impl : {"native", "naive"}) ExpectRightAloneAsItIs(impl, "200", 1);
}

}  // namespace
}  // namespace roofbench
