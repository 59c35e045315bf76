// The gate of a SwiGLU block: y = silu(gate) · up, silu(x) = x / (1 + exp(-x)), element by element.
#pragma once

#include <cstdint>

#include "lib/kernels/bf16.h"
#include "lib/kernels/parallel_for.h"

namespace roofbench::kernels {

// Computes in fp32. T: float or Bf16.
template <typename T>
struct SiluMul {
  const T* gate;
  const T* up;
  T* y;  // may be gate or up
  int64_t n = 0;
};

void Run(const SiluMul<float>& work, const ParallelFor& parallel_for);
void Run(const SiluMul<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
