// SPDX-License-Identifier: Apache-2.0
// A matrix product C[m,n] = A[m,k] · B[k,n].
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// FLOPs: 2mnk (a multiply and an add for each of the m·n·k products). Bytes: (mk + kn)·s read, mn·s_out written.
struct Gemm {
  double m = 0;
  double n = 0;
  double k = 0;
  Dtype dtype = Dtype::kFp32;  // of the multiplier and of A and B
  // Bytes of one element of C: int8 products are accumulated and stored as int32.
  double OutputBytes() const { return dtype == Dtype::kInt8 ? 4 : ElementBytes(dtype); }

  Operation Forward() const;
  // dA = dC·Bᵀ and dB = Aᵀ·dC: two products of the same size, 4mnk together.
  std::array<Operation, 2> Backward() const;

  Cost ForwardCost() const;
};

}  // namespace roofbench::workload
