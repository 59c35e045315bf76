// SPDX-License-Identifier: Apache-2.0
// Register-only multiply-add loops, of vectors and of tiles: the arithmetic roof of one thread, per precision.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/workload/dtype.h"

namespace roofbench::hardware {

// A loop with enough independent accumulators to hide the latency of the multiply-add: at least 16, or 12 where there
// are only 16 registers, or 4 tiles.
struct ComputeLoop {
  workload::Dtype dtype;
  std::string_view name;  // "fma avx512", "vpdpbusd avx2", "tdpbf16ps amx", …
  double flops_per_iteration;
  double (*run)(int64_t iterations);  // returns a value that depends on all the work
};

// The loops that this processor can run (fp32 always).
std::span<const ComputeLoop> ComputeLoops();

}  // namespace roofbench::hardware
