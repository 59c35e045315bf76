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
inline PlannedCase PlannedOf(const Family& family, const AxisValues& axes = {}) {
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

// Others take 1.5 of the 4 seconds that its two processors have while its roofs are measured, and the hypervisor 0.3.
class BusyDevice : public FakeDevice {
 public:
  void Calibrate(const hardware::RoofNeeds& needs) override {
    FakeDevice::Calibrate(needs);
    const double own_before = fake_clock.ProcessCpuSeconds();
    fake_clock.Advance(2);
    conditions.busy_seconds += 1.5 + fake_clock.ProcessCpuSeconds() - own_before;
    conditions.stolen_seconds += 0.3;
  }
};

}  // namespace roofbench
