// SPDX-License-Identifier: Apache-2.0
#include "lib/results/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roofbench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// 1 TFLOP per step, in chunks whose samples took 2 s and 4 s; next to them the arithmetic ran at half of its calibrated
// rate. The rate next to a third chunk is unknown.
Outcome TwoChunks() {
  Outcome outcome;
  outcome.model.flops = 1e12;
  outcome.samples.chunks = {{.median_seconds = 2, .roof_rate = 1e12},
                            {.median_seconds = 4, .roof_rate = 1e12},
                            {.median_seconds = 4, .roof_rate = 0}};
  return outcome;
}

TEST(ModelRatios, AreKnownOnlyWhereArithmeticBinds) {
  hardware::RoofGauge gauge{.peaks = {}, .bound = workload::Bound::kCompute, .name = "bf16"};
  gauge.calibrated_rate = 2e12;
  EXPECT_THAT(ModelRatios(gauge, TwoChunks()), ElementsAre(0.5, 0.25));
  // The probe is then not arithmetic, and the earlier calibration does not count as a roof inside the case.
  gauge.bound = workload::Bound::kMemory;
  EXPECT_THAT(ModelRatios(gauge, TwoChunks()), IsEmpty());
}

}  // namespace
}  // namespace roofbench
