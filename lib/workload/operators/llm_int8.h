// SPDX-License-Identifier: Apache-2.0
// A linear layer by LLM.int8() (Dettmers et al., arXiv:2208.07339): y[m,n] = x[m,k] · W[n,k]ᵀ in int8, and columns of x
// with outliers apart in 16 bits.
#pragma once

#include "lib/workload/cost.h"

namespace roofbench::workload {

// FLOPs: 2mnk in int8, in which the outlier columns are zeros, and 2mn an outlier column in bf16. Bytes: x and y in
// bf16, W in int8 with the largest magnitude of each row in fp32.
struct LlmInt8Linear {
  double m = 0;
  double n = 0;
  double k = 0;
  double outlier_columns = 0;

  Operation Product() const;
  Operation OutlierProduct() const;

  // Where a block of products is dequantized before it meets memory: the quantized rows of x are all that lies beside
  // the operands.
  Cost FusedCost() const;
  // Where each stage writes to memory what the next one reads, in fp32 as LibTorch's operators do. The same operations
  // and bytes; what lies in memory at once is more.
  Cost StagedCost() const;

 private:
  Cost CostBeside(double temporaries) const;
};

}  // namespace roofbench::workload
