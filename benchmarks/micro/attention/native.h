// SPDX-License-Identifier: Apache-2.0
// impl:native of attention: our own kernels.
#pragma once

#include "benchmarks/micro/attention/operands.h"

namespace roofbench {

CaseStep PrepareNative(AttentionOperands& o, const Point& at, Inputs& in);

}  // namespace roofbench
