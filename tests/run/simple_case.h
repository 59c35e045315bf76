// SPDX-License-Identifier: Apache-2.0
// Plans and cases of tests that are about something else.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/results/outcome.h"
#include "lib/suite/plan.h"
#include "tests/suite/test_family.h"

namespace roofbench {

// A case whose result is right, whatever its step does.
inline Case CaseOf(const at::Tensor& x, CaseStep step, std::vector<std::string> phases = {}) {
  return {.step = std::move(step),
          .phases = std::move(phases),
          .result = [=] { return std::vector{x}; },
          .reference = [=] { return std::vector{x}; }};
}

// The first point of the quick suite, with these axes changed.
inline PlannedCase Planned(const Family& family, const AxisValues& axes = {}) {
  Point point = family.Points(Suite::kQuick)[0];
  for (const auto& [axis, value] : axes) point = point.With(axis, value);
  std::string name = point.Name();
  return {&family, std::move(point), std::move(name)};
}

// -1 if the counter is absent.
inline double Counter(const Outcome& outcome, const std::string& name) {
  for (const auto& [key, value] : outcome.counters) {
    if (key == name) return value;
  }
  return -1;
}

}  // namespace roofbench
