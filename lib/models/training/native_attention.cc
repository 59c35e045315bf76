// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/native_attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <type_traits>

#include "lib/aten/elements.h"
#include "lib/aten/whole_rows.h"
#include "lib/kernels/operators/attention/attention.h"
#include "lib/kernels/operators/attention/attention_gradient.h"
#include "lib/kernels/operators/elementwise/rope.h"
#include "lib/models/training/transformer_model.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Heads {
  int64_t batch;
  int64_t tokens;
  int64_t heads;
  int64_t head_dim;
  int64_t all() const { return batch * heads; }
};

struct Angles {
  at::Tensor cosines;  // [tokens, head_dim/2]
  at::Tensor sines;
};

// Between x [batch, tokens, heads · head_dim] and y [batch · heads, tokens, head_dim]: x to y where `split`, y to x
// otherwise, its elements rotated on the way.
template <typename T>
void Rotated(const Heads& shape, T* x, T* y, const Angles& angles, bool split) {
  const int64_t width = shape.heads * shape.head_dim;
  TorchThreads()(shape.all(), [&](kernels::Range range) {
    for (int64_t head = range.begin; head < range.end; ++head) {
      T* const apart = x + head / shape.heads * shape.tokens * width + head % shape.heads * shape.head_dim;
      T* const together = y + head * shape.tokens * shape.head_dim;
      Run(kernels::Rope<T>{.x = split ? apart : together,
                           .y = split ? together : apart,
                           .cosines = Elements<float>(angles.cosines),
                           .sines = Elements<float>(angles.sines),
                           .rows = shape.tokens,
                           .positions = shape.tokens,
                           .cols = shape.head_dim,
                           .x_stride = split ? width : shape.head_dim,
                           .y_stride = split ? shape.head_dim : width},
          kernels::SerialFor());
    }
  });
}

at::Tensor SplitRotated(const Heads& shape, const at::Tensor& x, const Angles& angles) {
  const at::Tensor plain = x.contiguous();
  at::Tensor y = at::empty({shape.all(), shape.tokens, shape.head_dim}, x.options());
  const observe::Range kernel("roofbench::rope");
  WithElement(x, [&](auto element) {
    using T = decltype(element);
    Rotated(shape, Elements<T>(plain), Elements<T>(y), angles, /*split=*/true);
  });
  return y;
}

at::Tensor MergedRotated(const Heads& shape, const at::Tensor& y, const Angles& angles) {
  at::Tensor x = at::empty({shape.batch, shape.tokens, shape.heads * shape.head_dim}, y.options());
  const observe::Range kernel("roofbench::rope");
  WithElement(y, [&](auto element) {
    using T = decltype(element);
    Rotated(shape, Elements<T>(x), Elements<T>(y), angles, /*split=*/false);
  });
  return x;
}

// Vectors of x [batch, tokens, heads · head_dim] and of y [batch · heads, tokens, head_dim].
template <typename T>
kernels::HeadVectors<T> Apart(const Heads& shape, const at::Tensor& x) {
  return {Elements<std::remove_const_t<T>>(x), x.stride(0), shape.head_dim, x.stride(1)};
}
template <typename T>
kernels::HeadVectors<T> Together(const Heads& shape, const at::Tensor& y) {
  return {Elements<std::remove_const_t<T>>(y), shape.heads * y.stride(0), y.stride(0), y.stride(1)};
}

at::Tensor Scratch(int64_t floats) { return at::empty({floats}, at::kFloat); }

class FusedAttention : public Function<FusedAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_rows, const at::Tensor& k_rows,
                            const at::Tensor& v_rows, const at::Tensor& cosines, const at::Tensor& sines,
                            int64_t heads) {
    const int64_t head_dim = q_rows.size(2) / heads;
    const Heads of_q{q_rows.size(0), q_rows.size(1), heads, head_dim};
    const Heads of_k{q_rows.size(0), q_rows.size(1), k_rows.size(2) / head_dim, head_dim};
    const at::Tensor q = SplitRotated(of_q, q_rows, {cosines, sines});
    const at::Tensor k = SplitRotated(of_k, k_rows, {cosines, sines});
    const at::Tensor v = WithWholeRows(v_rows);
    at::Tensor y = at::empty(q_rows.sizes(), q.options());
    const at::Tensor logarithms = at::empty({of_q.all(), of_q.tokens}, q.options().dtype(at::kFloat));
    WithElement(q, [&]<typename T>(T) {
      kernels::Attention<T> work{.shape = Shape(of_q, of_k),
                                 .q = Together<const T>(of_q, q),
                                 .k = Together<const T>(of_k, k),
                                 .v = Apart<const T>(of_k, v),
                                 .y = Apart<T>(of_q, y),
                                 .log_sum_exp = Elements<float>(logarithms)};
      const at::Tensor scratch = Scratch(ScratchFloats(work));
      work.scratch = Elements<float>(scratch);
      const observe::Range kernel("roofbench::attention");
      Run(work, TorchThreads());
    });
    context->save_for_backward({q, k, v, y, logarithms, cosines, sines});
    context->saved_data["heads"] = heads;
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &y = saved[3], &logarithms = saved[4];
    const int64_t heads = context->saved_data["heads"].toInt();
    const Heads of_q{q.size(0) / heads, q.size(1), heads, q.size(2)};
    const Heads of_k{of_q.batch, k.size(1), k.size(0) / of_q.batch, k.size(2)};
    const at::Tensor dy = WithWholeRows(upstream[0]);
    const at::Tensor dq = at::empty_like(q);
    const at::Tensor dk = at::empty_like(k);
    const at::Tensor dv = at::empty({of_k.batch, of_k.tokens, of_k.heads * of_k.head_dim}, v.options());
    WithElement(q, [&]<typename T>(T) {
      const kernels::ThreadPool pool = TorchThreads();
      kernels::AttentionGradient<T> work{.shape = Shape(of_q, of_k),
                                         .q = Together<const T>(of_q, q),
                                         .k = Together<const T>(of_k, k),
                                         .v = Apart<const T>(of_k, v),
                                         .y = Apart<const T>(of_q, y),
                                         .log_sum_exp = Elements<float>(logarithms),
                                         .dy = Apart<const T>(of_q, dy),
                                         .dq = Together<T>(of_q, dq),
                                         .dk = Together<T>(of_k, dk),
                                         .dv = Apart<T>(of_k, dv)};
      const at::Tensor scratch = Scratch(ScratchFloats(work, pool.threads()));
      work.scratch = Elements<float>(scratch);
      const observe::Range kernel("roofbench::attention_gradient");
      Run(work, pool);
    });
    // A rotation's gradient is turned back.
    const Angles backwards{saved[5], saved[6].neg()};
    return {MergedRotated(of_q, dq, backwards),
            MergedRotated(of_k, dk, backwards),
            dv,
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }

 private:
  static kernels::AttentionShape Shape(const Heads& of_q, const Heads& of_k) {
    return {.batch = of_q.batch,
            .heads = of_k.heads,
            .group = of_q.heads / of_k.heads,
            .queries = of_q.tokens,
            .keys = of_k.tokens,
            .head_dim = of_q.head_dim,
            .causal = true};
  }
};

}  // namespace

at::Tensor NativeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RotaryTable& rope,
                           int64_t heads, Attention kind) {
  if (kind == Attention::kNaive) return EagerLayers().attention(q, k, v, rope, heads, kind);
  const int64_t tokens = q.size(1);
  return FusedAttention::apply(q, k, v, rope.cosines().narrow(0, 0, tokens), rope.sines().narrow(0, 0, tokens), heads);
}

}  // namespace roofbench::models
