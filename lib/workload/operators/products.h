// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"
#include "lib/workload/weight_format.h"

namespace roofbench::workload {

// C[m,n] = A[m,k] · B[k,n]. FLOPs: 2mnk (a multiply and an add for each of the m·n·k products). Bytes: (mk + kn)·s
// read, mn·s_out written, and the scales, if there are any.
struct Gemm {
  double m = 0;
  double n = 0;
  double k = 0;
  Dtype dtype = Dtype::kFp32;  // of the multiplier and of A and B; C of int8 is int32, of fp8 bf16
  double scales = 0;           // in fp32, of A and B together

  Operation Forward() const;
  // dA = dC·Bᵀ and dB = Aᵀ·dC: two products of the same size, 4mnk together.
  std::array<Operation, 2> Backward() const;

  Cost ForwardCost() const { return InOperands(Forward()); }
  // Additional memory of LibTorch's product in fp8 on a processor without AMX: B row-major, and both operands and C in
  // fp32, B twice while it is scaled, C twice while it is rounded.
  double Fp8ConversionBytes() const;
};

// y = W · x, the product of token generation: the bytes of the weights are the work.
// FLOPs: 2nk per vector, in the precision of the multiplication. Bytes: the weights with their scales once, x and y.
struct Gemv {
  double n = 0;  // rows of W: outputs
  double k = 0;  // columns
  WeightFormat format = WeightFormat::kFp32;
  double group = 0;  // for int4
  double batch = 1;  // vectors that share the weights

  Operation Forward() const;
  Cost ForwardCost() const { return InOperands(Forward()); }
};

// y[e] = W[e] · x for each of the chosen experts of a mixture: only their weights are read.
struct GatherGemv {
  Gemv expert;
  double chosen = 0;
  double experts = 0;  // that lie in memory

  Cost ForwardCost() const;
};

// Products of the rows of x [m,k] by the matrices [n,k] of their experts: each expert that has rows is read once.
struct GroupedGemm {
  Gemm expert;  // m: all rows
  double chosen = 0;
  double experts = 0;  // that lie in memory

  Cost ForwardCost() const;
};

// A linear layer by LLM.int8() (Dettmers et al., arXiv:2208.07339): y[m,n] = x[m,k] · W[n,k]ᵀ in int8, with the outlier
// columns of x separately in 16 bits.
// FLOPs: 2mnk in int8, in which the outlier columns are zeros, and 2mn per outlier column in bf16. Bytes: x and y in
// bf16, W in int8 with the largest magnitude of each row in fp32.
struct LlmInt8Linear {
  double m = 0;
  double n = 0;
  double k = 0;
  double outlier_columns = 0;

  Operation Product() const;  // in int8

  // A block of products is dequantized before it is stored: only the quantized rows of x need memory in addition to the
  // operands.
  Cost FusedCost() const;
  // Each stage writes the next one's input to memory, in fp32 as LibTorch's operators do. Operations and bytes are the
  // same; more memory is live at once.
  Cost StagedCost() const;

 private:
  Cost CostWith(double temporaries) const;
};

// A linear layer in fp8: y[m,n] = x[m,k] · W[n,k]ᵀ, x and y in bf16, x quantized in the step. FLOPs: 2mnk in fp8.
// Bytes: x, W and y, and fp32 scales of W: one, or one a row.
struct Fp8Linear {
  double m = 0;
  double n = 0;
  double k = 0;
  bool row_scales = false;

  Gemm Product() const;
  Cost ForwardCost() const;
};

}  // namespace roofbench::workload
