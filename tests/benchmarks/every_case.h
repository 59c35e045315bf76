// SPDX-License-Identifier: Apache-2.0
// What holds for every registered case on every device: the fixture of a device asks for both.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <limits>
#include <ostream>
#include <string>

#include "lib/device/device.h"
#include "lib/run/session.h"
#include "lib/suite/plan.h"

namespace roofbench {

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

// Where element `index` of the tensor lies, whatever its strides.
inline at::Tensor ElementOf(at::Tensor tensor, int64_t index) {
  while (tensor.dim() > 0) {
    const int64_t below = tensor.numel() / tensor.size(0);
    tensor = tensor.select(0, index / below);
    index %= below;
  }
  return tensor;
}

// Twice, so that the second finds what the first left.
inline void ExpectRightTwice(const PlannedCase& planned, const RunOptions& options, Device& device) {
  Session session(options, device, {planned}, nullptr);
  for (int repetition = 0; repetition < 2; ++repetition) {
    const Outcome& outcome = session.Run(0);
    if (outcome.verdict == Verdict::kSkipped) GTEST_SKIP() << outcome.reason;
    EXPECT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  }
}

inline void ExpectWrongResultFails(const PlannedCase& planned, const RunOptions& options, Device& device) {
  Session session(options, device, {planned}, nullptr);
  session.TamperWith({.result = [](at::Tensor& result) {
    at::Tensor last = ElementOf(result, result.numel() - 1);
    // Off by about the size of the largest element: above what deep networks in bf16 may round, far below nonsense.
    const at::Scalar off = last.is_floating_point() ? result.abs().max().item() : at::Scalar(1);
    last.add_(off);
  }});
  const Outcome& outcome = session.Run(0);
  if (outcome.verdict == Verdict::kSkipped) GTEST_SKIP() << outcome.reason;
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.reason, testing::HasSubstr("wrong result"));
}

// Of families that compare samples: a NaN, and a row of other numbers, where no sample was taken.
inline void ExpectWrongElsewhereFails(const PlannedCase& planned, const RunOptions& options, Device& device) {
  const auto spoil_an_element = [](at::Tensor& whole) {
    at::Tensor element = ElementOf(whole, whole.numel() / 2);
    element.is_floating_point() ? element.fill_(std::numeric_limits<float>::quiet_NaN()) : element.add_(1);
  };
  const auto spoil_a_row = [](at::Tensor& whole) {
    at::Tensor row = whole.view({-1, whole.size(-1)})[0];
    row.is_floating_point() ? row.add_(row.abs().max()) : row.add_(1);
  };
  for (const auto& spoil : {std::function<void(at::Tensor&)>(spoil_an_element), {spoil_a_row}}) {
    bool sampled = false;
    Session session(options, device, {planned}, nullptr);
    session.TamperWith({.whole = [&](at::Tensor& whole) {
      sampled = true;
      spoil(whole);
    }});
    const Outcome& outcome = session.Run(0);
    if (outcome.verdict == Verdict::kSkipped) GTEST_SKIP() << outcome.reason;
    if (!sampled) GTEST_SKIP() << "the whole result is compared with its reference";
    EXPECT_EQ(outcome.verdict, Verdict::kFailed);
    EXPECT_THAT(outcome.reason, testing::HasSubstr("wrong result"));
  }
}

}  // namespace roofbench
