// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/prompt_attention.h"

#include <ATen/ops/empty.h>

#include <type_traits>

#include "lib/aten/elements.h"
#include "lib/aten/whole_rows.h"
#include "lib/kernels/operators/attention/attention.h"

namespace roofbench {
namespace {

template <typename T>
kernels::HeadVectors<T> Heads(const at::Tensor& x) {
  return {Elements<std::remove_const_t<T>>(x), x.stride(0), x.stride(1), x.stride(2)};
}

}  // namespace

at::Tensor PromptAttention::operator()(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const kernels::ParallelFor& parallel_for) {
  const at::Tensor queries = WithWholeRows(q);
  const at::Tensor keys = WithWholeRows(k);
  const at::Tensor values = WithWholeRows(v);
  const at::Tensor y = at::empty({q.size(0), q.size(2), q.size(1), q.size(3)}, q.options()).transpose(1, 2);
  WithElement(q, [&]<typename T>(T) {
    kernels::Attention<T> work{.shape = {.batch = q.size(0),
                                         .heads = k.size(1),
                                         .group = q.size(1) / k.size(1),
                                         .queries = q.size(2),
                                         .keys = k.size(2),
                                         .head_dim = q.size(3),
                                         .causal = true},
                               .q = Heads<const T>(queries),
                               .k = Heads<const T>(keys),
                               .v = Heads<const T>(values),
                               .y = Heads<T>(y),
                               .scale = scale_,
                               .cap = cap_};
    const int64_t floats = ScratchFloats(work);
    if (!scratch_.defined() || scratch_.numel() < floats) scratch_ = at::empty({floats}, at::kFloat);
    work.scratch = Elements<float>(scratch_);
    Run(work, parallel_for);
  });
  return y;
}

}  // namespace roofbench
