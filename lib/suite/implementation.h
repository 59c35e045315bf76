// SPDX-License-Identifier: Apache-2.0
// One implementation of a family's work: where it runs, and how far it is verified.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "lib/device/device.h"
#include "lib/suite/point.h"

namespace roofbench {

// Verification of an implementation on a kind of device. kChecked: every run compares its results with a reference.
// kUnverified: it launches kernels that no GPU has run yet; kEmulated: the same, but they ran in an emulation.
enum class Proof { kNone, kUnverified, kEmulated, kChecked };
std::string_view Name(Proof proof);  // "none", "unverified", "emulated", "checked"

struct Implementation {
  std::string name;  // a value of the axis `impl`
  std::string doc = {};
  bool on_cpu = false;
  bool on_gpu = false;
  // GPU kernels that our code launches: __global__ functions, or other rows of lib/device/unverified.cc.
  std::vector<std::string_view> kernels = {};
  // Further kernels that only some points launch; nullptr: none.
  std::function<std::vector<std::string_view>(const Point&)> kernels_at = {};
  // The accepted values of `dtype`, or of `precision` in a family without that axis; empty: all of the family's.
  std::vector<std::string> dtypes = {};
  // Explanation of its limits, for users; empty if there is none.
  std::string limits = {};

  Proof CpuProof() const;
  Proof GpuProof() const;
};

// Whether the implementation supports the device's kind and the point's dtype; a non-OK status lists the supported
// alternatives.
absl::Status SupportsImplementation(const Implementation& implementation, const Point& point, const Device& device);

// Returns Unimplemented if the implementation would launch kernels that no GPU has run yet.
absl::Status CheckVerified(const Implementation& implementation, const Point& point, const Device& device);

// The common description of an implementation name: "eager" is LibTorch's own operator. Empty for other names.
std::string_view ImplementationDoc(std::string_view name);

}  // namespace roofbench
