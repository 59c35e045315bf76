// SPDX-License-Identifier: Apache-2.0
// impl:sdpa of attention: LibTorch's scaled_dot_product_attention by one of its backends, and its gradients by
// autograd.
#pragma once

#include "benchmarks/micro/attention/operands.h"

namespace roofbench {

inline constexpr char kBackendAxis[] = "backend";
inline constexpr char kAutoBackend[] = "auto";  // whichever LibTorch takes

CaseStep PrepareSdpa(AttentionOperands& o, const Point& at, Inputs& in);

// Whether LibTorch has the point's backend for it.
absl::Status SdpaSupports(const Point& at, const Device& device);

}  // namespace roofbench
