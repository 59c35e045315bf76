// SPDX-License-Identifier: Apache-2.0
// impl:sdpa of attention: LibTorch's scaled_dot_product_attention by one of its backends, and its gradients by
// autograd.
#pragma once

#include <string>

#include "benchmarks/micro/attention/operands.h"

namespace roofbench {

inline constexpr char kBackendAxis[] = "backend";
inline constexpr char kAutoBackend[] = "auto";  // whichever LibTorch takes

CaseStep PrepareSdpa(AttentionOperands& o, const Point& at, Inputs& in);

// What LibTorch's flash attention on a processor needs beside operands and results, on as many threads as it has.
double SdpaScratchBytes(const workload::Attention& shape, const std::string& pass);

// Whether LibTorch has the point's backend for it.
absl::Status SdpaSupports(const Point& at, const Device& device);

}  // namespace roofbench
