// SPDX-License-Identifier: Apache-2.0
// A family that adds one to a vector and advances a fake clock.
#pragma once

#include <string>
#include <utility>

#include "lib/workload/operators/elementwise.h"
#include "tests/device/fake_device.h"
#include "tests/suite/plain_family.h"

namespace roofbench {

// Every step takes `seconds` on the fake clock of `device` (which must outlive the family).
inline PlainFamily TestFamily(FakeDevice& device, double seconds, std::string name = "test") {
  PlainFamily family(std::move(name), "adds one");
  family.growth = {{"n", 1}};
  return family.Axis({.name = "impl", .choices = {"good", "wrong", "throws", "refuses"}, .default_value = "good"})
      .Axis({.name = "n"})
      .Grid(Suite::kQuick, {{"n", {"16", "32", "64"}}})
      .Grid(Suite::kFull, {{"n", {"4096"}}})
      .Cost([](const Point& at) { return workload::CopyStream{at.Number("n") * 4}.Cost(); })
      .Build([&device, seconds](const Point& at, Inputs& in) -> absl::StatusOr<Case> {
        const std::string impl = at.Text("impl");
        if (impl == "refuses") return absl::UnimplementedError("no kernel for this");
        const at::Tensor x = in.Randn({at.Int("n")});
        const at::Tensor y = in.Empty({at.Int("n")}, workload::Dtype::kFp32);
        return Case{.step =
                        [=, &device] {
                          if (impl == "throws") throw std::runtime_error("the kernel broke");
                          y.copy_(x).add_(impl == "wrong" ? 1.001 : 1.0);
                          device.fake_clock.Advance(seconds);
                        },
                    .result = [=] { return std::vector{y}; },
                    .reference = [=] { return std::vector{x.to(at::kDouble).add(1)}; }};
      });
}

}  // namespace roofbench
