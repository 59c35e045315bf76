// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/micro/attention/native.h"

#include <ATen/Parallel.h>

#include <type_traits>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/attention/attention.h"
#include "lib/kernels/operators/attention/attention_gradient.h"
#include "lib/kernels/threading/thread_pool.h"

namespace roofbench {
namespace {

template <typename T>
kernels::HeadVectors<T> Heads(const at::Tensor& x) {
  return {Elements<std::remove_const_t<T>>(x), 0, x.stride(-3), x.stride(-2)};
}

template <typename T>
kernels::Attention<T> Forward(AttentionOperands& o) {
  return {.shape = {.heads = o.k.size(0),
                    .group = o.q.size(1),
                    .queries = o.q.size(2),
                    .keys = o.keys,
                    .head_dim = o.q.size(3),
                    .causal = o.causal},
          .q = Heads<const T>(o.q.flatten(0, 1)),
          .k = Heads<const T>(o.k),
          .v = Heads<const T>(o.v),
          .y = Heads<T>(o.y.flatten(0, 1))};
}

template <typename T>
kernels::AttentionGradient<T> Backward(AttentionOperands& o, const kernels::Attention<T>& forward) {
  return {.shape = forward.shape,
          .q = forward.q,
          .k = forward.k,
          .v = forward.v,
          .y = Heads<const T>(o.y.flatten(0, 1)),
          .log_sum_exp = forward.log_sum_exp,
          .dy = Heads<const T>(o.dy.flatten(0, 1)),
          .dq = Heads<T>(o.dq.flatten(0, 1)),
          .dk = Heads<T>(o.dk),
          .dv = Heads<T>(o.dv)};
}

}  // namespace

CaseStep PrepareNative(AttentionOperands& o, const Point& at, Inputs& in) {
  return WithDtype(at.Dtype(), [&]<typename T>(T) -> CaseStep {
    const int threads = in.device().threads();
    kernels::Attention<T> forward = Forward<T>(o);
    const at::Tensor packed = in.Empty({ScratchFloats(forward)}, at::kFloat);
    forward.scratch = Elements<float>(packed);
    if (!o.has_backward()) return [forward, threads, packed] { Run(forward, kernels::ThreadPool(threads)); };
    const at::Tensor logarithms = in.Empty({o.q.numel() / o.q.size(3)}, at::kFloat);
    forward.log_sum_exp = Elements<float>(logarithms);
    o.dq = in.Empty(o.q.sizes(), at.Dtype());
    o.dk = in.Empty(o.k.sizes(), at.Dtype());
    o.dv = in.Empty(o.v.sizes(), at.Dtype());
    kernels::AttentionGradient<T> backward = Backward(o, forward);
    const at::Tensor scratch = in.Empty({ScratchFloats(backward, threads)}, at::kFloat);
    backward.scratch = Elements<float>(scratch);
    if (!o.has_forward) {
      Run(forward, kernels::ThreadPool(threads));
      return [backward, threads, logarithms, scratch] { Run(backward, kernels::ThreadPool(threads)); };
    }
    return [forward, backward, threads, packed, logarithms, scratch] {
      const kernels::ThreadPool pool(threads);
      Run(forward, pool);
      Run(backward, pool);
    };
  });
}

double NativeScratchBytes(const workload::Attention& shape, bool has_backward) {
  const kernels::AttentionShape of_kernel = {.heads = static_cast<int64_t>(shape.batch * shape.kv_heads),
                                             .group = static_cast<int64_t>(shape.heads / shape.kv_heads),
                                             .queries = static_cast<int64_t>(shape.queries),
                                             .keys = static_cast<int64_t>(shape.keys),
                                             .head_dim = static_cast<int64_t>(shape.head_dim),
                                             .causal = shape.causal};
  const auto floats = [&]<typename T>(T /*as*/) {
    kernels::Attention<T> forward;
    forward.shape = of_kernel;
    if (!has_backward) return ScratchFloats(forward);
    kernels::AttentionGradient<T> backward;
    backward.shape = of_kernel;
    return ScratchFloats(forward) + ScratchFloats(backward, at::get_num_threads());
  };
  const bool is_bf16 = shape.dtype == workload::Dtype::kBf16;
  return sizeof(float) * static_cast<double>(is_bf16 ? floats(kernels::Bf16()) : floats(0.0F));
}

}  // namespace roofbench
