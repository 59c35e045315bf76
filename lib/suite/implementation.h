// SPDX-License-Identifier: Apache-2.0
// One way to do a family's work: where it runs, and how far that is proven.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "lib/device/device.h"
#include "lib/suite/point.h"

namespace roofbench {

// What stands behind an implementation on a kind of device. kChecked: its results are compared with a reference in
// every run. kUnverified: it launches what no GPU has run yet; kEmulated: nor has one, but a stand-in.
enum class Proof { kNone, kUnverified, kEmulated, kChecked };
std::string_view Name(Proof proof);  // "none", "unverified", "emulated", "checked"

struct Implementation {
  std::string name;  // a value of the axis `impl`
  std::string doc = {};
  bool on_cpu = false;
  bool on_gpu = false;
  // What it launches on GPUs by our doing: __global__ functions, and else rows of lib/device/unverified.cc.
  std::vector<std::string_view> kernels = {};
  // More of them, of some points alone; nullptr: none.
  std::function<std::vector<std::string_view>(const Point&)> kernels_at = {};
  // The values of `dtype`, or of `precision` in a family without that axis, that it takes; empty: all of the family's.
  std::vector<std::string> dtypes = {};
  // Why it does not run elsewhere, for people; empty where there is nothing to say.
  std::string limits = {};

  Proof CpuProof() const;
  Proof GpuProof() const;
};

// Whether the device is of a kind that the implementation is for, and the point of a dtype that it takes; not-OK says
// what does run.
absl::Status SupportsImplementation(const Implementation& implementation, const Point& point, const Device& device);

// Unimplemented where the implementation would launch what no GPU has run yet.
absl::Status CheckVerified(const Implementation& implementation, const Point& point, const Device& device);

// What an implementation of this name is in every family: "eager" is LibTorch's own operator. Empty for other names.
std::string_view ImplementationDoc(std::string_view name);

}  // namespace roofbench
