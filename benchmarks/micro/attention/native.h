// SPDX-License-Identifier: Apache-2.0
// impl:native of attention: our own kernels.
#pragma once

#include "benchmarks/micro/attention/operands.h"

namespace roofbench {

CaseStep PrepareNative(AttentionOperands& o, const Point& at, Inputs& in);

// What it needs beside operands and results, on as many threads as LibTorch has.
double NativeScratchBytes(const workload::Attention& shape, bool has_backward);

}  // namespace roofbench
