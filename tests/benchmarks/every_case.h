// SPDX-License-Identifier: Apache-2.0
// Properties of every registered case on every device.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/device.h"
#include "lib/run/session.h"
#include "lib/suite/check.h"
#include "lib/suite/inputs.h"
#include "lib/suite/plan.h"
#include "tests/suite/run_once.h"

namespace roofbench {

// The first point of the family with these values.
inline PlannedCase CaseAt(const std::string& family, const AxisValues& values) {
  const Family& found = FamilyNamed(family);
  Point point = found.Points().front();
  for (const auto& [axis, value] : values) point = point.With(axis, value);
  return {&found, point, point.Name()};
}

// Builds the case, runs a step and expects its result to be right.
inline void BuildRight(const PlannedCase& planned, Device& device, uint64_t seed, Case& built) {
  Inputs inputs(device, seed, planned.name);
  absl::StatusOr<Case> made = planned.family->BuildAt(planned.point, inputs);
  ASSERT_TRUE(made.ok()) << made.status();
  built = *std::move(made);
  RunOnce(built);
  const absl::Status right = CheckCase(built);
  EXPECT_TRUE(right.ok()) << right;
}

// The options of runs whose results matter, not their times.
inline RunOptions FewSamples(int64_t least, int64_t most) {
  RunOptions options;
  options.reference = "a100-sxm4-40gb";
  options.unverified = true;
  options.sampling.roof_share = 0;
  options.sampling.min_samples = least;
  options.sampling.max_samples = most;
  options.sampling.warmup_iters = 1;
  return options;
}

// How GoogleTest names the parameter of a failed test.
inline void PrintTo(const PlannedCase& planned, std::ostream* out) { *out << planned.name; }

// A test's name may hold letters and digits only.
inline std::string TestNameOf(const testing::TestParamInfo<PlannedCase>& instance) {
  std::string name = instance.param.name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

// The place of element `index` of the tensor, for any strides.
inline at::Tensor ElementOf(at::Tensor tensor, int64_t index) {
  while (tensor.dim() > 0) {
    const int64_t below = tensor.numel() / tensor.size(0);
    tensor = tensor.select(0, index / below);
    index %= below;
  }
  return tensor;
}

// Runs the case twice, so that the second run finds what the first one left. False if it was skipped.
inline bool IsRightTwice(const PlannedCase& planned, const RunOptions& options, Device& device) {
  Session session(options, device, {planned}, nullptr);
  for (int repetition = 0; repetition < 2; ++repetition) {
    const Outcome& outcome = session.Run(0);
    if (outcome.verdict == Verdict::kSkipped) {
      [&] { GTEST_SKIP() << outcome.reason; }();
      return false;
    }
    EXPECT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  }
  return true;
}

// Off by about the size of the largest element: above what deep networks in bf16 may round, far below nonsense.
inline void SpoilLastElement(at::Tensor& result) {
  at::Tensor last = ElementOf(result, result.numel() - 1);
  last.add_(last.is_floating_point() ? result.abs().max().item() : at::Scalar(1));
}

inline void SpoilMiddleElement(at::Tensor& whole) {
  at::Tensor element = ElementOf(whole, whole.numel() / 2);
  element.is_floating_point() ? element.fill_(std::numeric_limits<float>::quiet_NaN()) : element.add_(1);
}

inline void SpoilFirstRow(at::Tensor& whole) {
  at::Tensor row = whole.view({-1, whole.size(-1)})[0];
  row.is_floating_point() ? row.add_(row.abs().max()) : row.add_(1);
}

// The check of a case that was stepped once detects the change that `spoil` makes to its result, or, with `in_whole`,
// to all that it computed, of which the result is a sample. Leaves the case as it was.
inline void ExpectFaultFound(const Case& built, void (*spoil)(at::Tensor&), bool in_whole) {
  at::Tensor spoiled, kept;
  const auto fault = [&](at::Tensor& tensor) {
    spoiled = tensor;
    kept = tensor.clone();
    spoil(tensor);
  };
  const absl::Status status = CheckCase(built, in_whole ? Tamper{.whole = fault} : Tamper{.result = fault});
  if (!spoiled.defined()) return;  // the whole result was compared with its reference
  const at::NoGradGuard no_grad;
  spoiled.copy_(kept);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(status.message(), testing::HasSubstr("wrong result"));
}

// Builds the case once, and tests whether its check detects faults and whether a clone holds the same data.
inline void ExpectFaultsFoundAndClonesAlike(const PlannedCase& planned, const RunOptions& options, Device& device) {
  Inputs inputs(device, options.seed, planned.name, options.compile);
  const absl::StatusOr<Case> built = planned.family->BuildAt(planned.point, inputs);
  ASSERT_TRUE(built.ok()) << built.status();
  const double bytes = inputs.bytes();
  inputs.StartClone();
  const absl::StatusOr<Case> clone = planned.family->BuildAt(planned.point, inputs);
  ASSERT_TRUE(clone.ok()) << clone.status();
  EXPECT_EQ(inputs.bytes(), bytes);

  const at::AutoGradMode grad(built->autograd);
  RunOnce(*built);
  RunOnce(*clone);
  // A case is asked for its reference once.
  const auto reference_of = [](const Case& of) {
    if (!of.reference_rows) return of.reference();
    const at::Tensor result = of.result().front();
    const int64_t rows = result.dim() > 1 ? result.numel() / result.size(-1) : result.numel();
    return std::vector{of.reference_rows({0, rows}).view_as(result)};
  };
  const std::vector<at::Tensor> reference = reference_of(*built);
  Case one = *built;
  if (one.reference) one.reference = [&reference] { return reference; };
  EXPECT_TRUE(CompareTensors(reference_of(*clone).front(), reference.front(), one.tolerance, "clone").ok());
  ASSERT_TRUE(CheckCase(one).ok());
  ExpectFaultFound(one, SpoilMiddleElement, /*in_whole=*/true);
  ExpectFaultFound(one, SpoilFirstRow, /*in_whole=*/true);
  ExpectFaultFound(one, SpoilLastElement, /*in_whole=*/false);
}

}  // namespace roofbench
