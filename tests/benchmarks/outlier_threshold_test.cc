// SPDX-License-Identifier: Apache-2.0
// The threshold of llm_int8_linear is any number: its outliers are counted and multiplied by it.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "lib/device/cpu_device.h"
#include "lib/suite/check.h"
#include "lib/suite/family.h"
#include "lib/suite/inputs.h"
#include "tests/suite/run_once.h"

namespace roofbench {
namespace {

constexpr int kRows = 4;
constexpr int kColumns = 4096;

// The counter of a case with normal activations that was run and is right.
double OutlierColumns(const std::string& impl, const std::string& threshold) {
  const Family& family = FamilyNamed("llm_int8_linear");
  const Point point = family.Points(Suite::kFull)[0]
                          .With("impl", impl)
                          .With("precision", "llm_int8")
                          .With("rows", std::to_string(kRows))
                          .With("n", "64")
                          .With("k", std::to_string(kColumns))
                          .With("outlier_threshold", threshold)
                          .With("outliers", "0");
  CpuDevice device(2);
  Inputs inputs(device, 1, "outliers");
  const auto built = family.BuildAt(point, inputs);
  EXPECT_TRUE(built.ok()) << built.status();
  if (!built.ok()) return -1;
  RunOnce(*built);
  const absl::Status right = CheckCase(*built, {});
  EXPECT_TRUE(right.ok()) << right;
  for (const auto& [name, value] : built->figures) {
    if (name == "outlier_columns") return value();
  }
  ADD_FAILURE() << "no counter outlier_columns";
  return -1;
}

// Columns in which one of the rows' normal numbers reaches the threshold.
TEST(OutlierThreshold, CountsWhatReachesIt) {
  for (const char* impl : {"eager", "native"}) {
    for (const char* threshold : {"2", "2.5", "3"}) {
      const double within = std::erf(std::stod(threshold) / std::sqrt(2));
      const double share = 1 - std::pow(within, kRows);
      const double deviation = std::sqrt(kColumns * share * (1 - share));
      // 696, 200 and 44 columns; so far from them no other of these thresholds leads.
      EXPECT_NEAR(OutlierColumns(impl, threshold), kColumns * share, 6 * deviation) << impl << " " << threshold;
    }
    EXPECT_EQ(OutlierColumns(impl, "0"), 0);
    EXPECT_EQ(OutlierColumns(impl, "5.5"), 0);  // beyond the largest
  }
}

}  // namespace
}  // namespace roofbench
