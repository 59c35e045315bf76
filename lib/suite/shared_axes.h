// SPDX-License-Identifier: Apache-2.0
// The axes with the same meaning in every family, spelled only here.
#pragma once

#include <string>
#include <vector>

#include "lib/suite/point.h"
#include "lib/workload/dtype.h"

namespace roofbench {

inline constexpr char kImplAxis[] = "impl";
inline constexpr char kDtypeAxis[] = "dtype";
inline constexpr char kPrecisionAxis[] = "precision";
inline constexpr char kPassAxis[] = "pass";
inline constexpr char kCacheAxis[] = "cache";

// Values of `pass`. A forward pass records gradients as in training; inference does not.
inline constexpr char kForward[] = "forward";
inline constexpr char kInference[] = "inference";
inline constexpr char kBackward[] = "backward";
inline constexpr char kForwardBackward[] = "forward_backward";
inline constexpr char kStep[] = "step";

// A value of `dtype` in addition to those of workload::Dtype: products in bf16 over tensors stored in fp32.
inline constexpr char kBf16Autocast[] = "bf16_autocast";

// Values of `cache`.
inline constexpr char kCold[] = "cold";
inline constexpr char kWarm[] = "warm";

// The common meaning of the axis; empty for an axis that belongs to a single family.
std::string SharedAxisDoc(const std::string& axis);

// A shared axis; `doc` adds only the details of one family.
AxisSpec SharedAxis(const char* name, std::vector<std::string> choices, std::string default_value = {},
                    std::string doc = {});

// The types that a point's `dtype` stands for: bf16_autocast computes in bf16 and stores fp32, as tf32 does.
struct ComputeAndStorage {
  workload::Dtype compute;
  workload::Dtype storage;
};
ComputeAndStorage DtypesOf(const Point& point);

}  // namespace roofbench
