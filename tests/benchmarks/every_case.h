// SPDX-License-Identifier: Apache-2.0
// What holds for every registered case on every device: the fixture of a device asks for both.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
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

// Twice, so that the second finds what the first left.
inline void ExpectRightTwice(const PlannedCase& planned, const RunOptions& options, Device& device) {
  Session session(options, device, {planned}, nullptr);
  for (int repetition = 0; repetition < 2; ++repetition) {
    const Outcome& outcome = session.Run(0);
    if (outcome.verdict == Verdict::kSkipped) GTEST_SKIP() << outcome.reason;
    // So short a run may beat a roof probe; any other failure is real.
    EXPECT_TRUE(outcome.verdict == Verdict::kMeasured ||
                outcome.reason.find("roof, which cannot be") != std::string::npos)
        << outcome.reason;
  }
}

inline void ExpectWrongResultFails(const PlannedCase& planned, const RunOptions& options, Device& device) {
  Session session(options, device, {planned}, nullptr);
  session.TamperWithResults([](at::Tensor& result) {
    at::Tensor last = result.view({-1})[result.numel() - 1];
    // Off by about the size of the largest element: above what deep networks in bf16 may round, far below nonsense.
    const at::Scalar off = last.is_floating_point() ? result.abs().max().item() : at::Scalar(1);
    last.add_(off);
  });
  const Outcome& outcome = session.Run(0);
  if (outcome.verdict == Verdict::kSkipped) GTEST_SKIP() << outcome.reason;
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.reason, testing::HasSubstr("wrong result"));
}

}  // namespace roofbench
