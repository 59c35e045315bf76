// SPDX-License-Identifier: Apache-2.0
#include "lib/run/roof_ratios.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// 1 TFLOP a step, in chunks whose samples took 2 s and 4 s, beside which the arithmetic ran at half of its calibrated
// rate, and one of which the rate is not known.
Outcome TwoChunks() {
  Outcome outcome;
  outcome.model.flops = 1e12;
  outcome.samples.chunks = {{.median_seconds = 2, .roof_rate = 1e12},
                            {.median_seconds = 4, .roof_rate = 1e12},
                            {.median_seconds = 4, .roof_rate = 0}};
  return outcome;
}

TEST(ModelRatios, AreOfTheArithmeticBesideTheCase) {
  RoofGauge gauge{.peaks = {}, .bound = workload::Bound::kCompute, .name = "bf16"};
  gauge.calibrated_rate = 2e12;
  EXPECT_THAT(ModelRatios(gauge, TwoChunks()), ElementsAre(0.5, 0.25));
}

// What is probed beside it is no arithmetic, and what was calibrated before is no roof inside the case.
TEST(ModelRatios, AreNotKnownWhereMemoryBinds) {
  RoofGauge gauge{.peaks = {}, .bound = workload::Bound::kMemory, .name = "memory"};
  gauge.calibrated_rate = 2e12;
  EXPECT_THAT(ModelRatios(gauge, TwoChunks()), IsEmpty());
}

}  // namespace
}  // namespace roofbench
