// SPDX-License-Identifier: Apache-2.0
// Our kernels of rows on tensors without gaps, in fp32 or bf16; they throw c10::Error for others.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench {

// kernels::RmsNorm along the last dimension; weight [cols] in any type. `rstd`: in fp32, one of each row is written to
// it, unless it is undefined.
at::Tensor RmsNormOfRows(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                         const kernels::ParallelFor& parallel_for, const at::Tensor& rstd = {});

// kernels::SiluMul of the first and the second half of each row: [..., 2 · n] becomes [..., n].
at::Tensor SiluMulOfHalves(const at::Tensor& gate_up, const kernels::ParallelFor& parallel_for);

// kernels::Rope in place: heads [batch, heads, tokens, head_dim] with whole rows, of which token i is turned by row i
// of the cosines and sines [tokens, pairs], in fp32 without gaps; elements after the pairs stay.
void TurnHeads(const at::Tensor& heads, const at::Tensor& cosines, const at::Tensor& sines,
               const kernels::ParallelFor& parallel_for);

}  // namespace roofbench
