// SPDX-License-Identifier: Apache-2.0
// The axes that mean the same in every family: the one place that spells them.
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

// Of `pass`. A forward pass records gradients as training does; inference does not.
inline constexpr char kForward[] = "forward";
inline constexpr char kInference[] = "inference";
inline constexpr char kBackward[] = "backward";
inline constexpr char kForwardBackward[] = "forward_backward";
inline constexpr char kStep[] = "step";

// Of `dtype`, beside those of workload::Dtype: products in bf16 over tensors stored in fp32.
inline constexpr char kBf16Autocast[] = "bf16_autocast";

// Of `cache`.
inline constexpr char kCold[] = "cold";
inline constexpr char kWarm[] = "warm";

// What the axis means wherever it occurs; empty for an axis that is a family's own.
std::string SharedAxisDoc(const std::string& axis);

// An axis as its families share it; `doc` says only what is particular to one.
AxisSpec SharedAxis(const char* name, std::vector<std::string> choices, std::string default_value = {},
                    std::string doc = {});

// What a point's `dtype` stands for: bf16_autocast computes in bf16 and stores fp32, as tf32 does.
struct ComputeAndStorage {
  workload::Dtype compute;
  workload::Dtype storage;
};
ComputeAndStorage DtypesOf(const Point& point);

}  // namespace roofbench
