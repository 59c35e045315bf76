// SPDX-License-Identifier: Apache-2.0
// Register-only multiply-add loops, of vectors and of tiles: the arithmetic roof of one thread, per precision.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/hardware/roofs/compute_operands.h"
#include "lib/workload/dtype.h"

namespace roofbench::hardware {

// A loop with enough independent accumulators to hide the latency of the multiply-add: at least 16, or 12 where there
// are only 16 registers, or 4 tiles.
// How many vectors of sums a loop has, how many pairs of factors each of them meets in an iteration, the lanes of a
// sum, and the products that an instruction adds to a lane. No lanes: the loop is of tiles.
struct LoopLayout {
  int sums = 0;
  int pairs = 0;
  int lanes = 0;
  int products = 0;
};

struct ComputeLoop {
  workload::Dtype dtype;
  std::string_view name;  // "fma avx512", "vpdpbusd avx2", "tdpbf16ps amx", …
  LoopLayout layout;
  double flops_per_iteration;
  // On random factors, and on zeros. Returns the sum of all lanes, which depends on all the work.
  double (*run)(int64_t iterations);
  double (*run_on_zeros)(int64_t iterations);

  bool HasTiles() const { return layout.lanes == 0; }
  // What they return, computed one product at a time in double precision.
  double Expected(int64_t iterations, Factors factors) const;
};

// The loops that this processor can run (fp32 always).
std::span<const ComputeLoop> ComputeLoops();

}  // namespace roofbench::hardware
