// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/native_attention.h"

#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/elementwise/rope.h"
#include "lib/kernels/operators/rows/softmax.h"
#include "lib/models/training/transformer_model.h"
#include "lib/observe/ranges.h"
#include "lib/workload/models/transformer_training.h"

namespace roofbench::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Queries that attend at once. The scores of all heads against all keys before them should stay in the cache, and what
// the mask hides within a block is computed in vain.
constexpr auto kBlock = static_cast<int64_t>(workload::kNativeAttentionBlock);

struct Heads {
  int64_t batch;
  int64_t tokens;
  int64_t heads;
  int64_t head_dim;
  int64_t all() const { return batch * heads; }
};

// Angles with which a rotation scales, too, or turns backwards.
struct Angles {
  at::Tensor cosines;  // [tokens, head_dim/2]
  at::Tensor sines;

  static Angles Of(const at::Tensor& cosines, const at::Tensor& sines, double scale, bool backwards) {
    return {cosines.mul(scale), sines.mul(backwards ? -scale : scale)};
  }
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

// [batch, tokens, heads · head_dim] -> [batch · heads, tokens, head_dim], and back: copies.
at::Tensor Split(const Heads& shape, const at::Tensor& x) {
  return x.view({shape.batch, shape.tokens, shape.heads, shape.head_dim})
      .transpose(1, 2)
      .reshape({shape.all(), shape.tokens, shape.head_dim});
}
at::Tensor Merged(const Heads& shape, const at::Tensor& y) {
  return y.view({shape.batch, shape.heads, shape.tokens, shape.head_dim})
      .transpose(1, 2)
      .reshape({shape.batch, shape.tokens, shape.heads * shape.head_dim});
}

// Scores [heads, queries, keys] become probabilities; query i sees the keys up to `first` + i, and the others get none.
template <typename T>
void CausalSoftmax(const at::Tensor& scores, int64_t first) {
  const int64_t queries = scores.size(1);
  const int64_t keys = scores.size(2);
  TorchThreads()(scores.size(0) * queries, [&](kernels::Range range) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      T* const row = Elements<T>(scores) + i * keys;
      const int64_t seen = first + i % queries + 1;
      Run(kernels::Softmax<T>{.x = row, .y = row, .rows = 1, .cols = seen}, kernels::SerialFor());
      std::fill(row + seen, row + keys, T());
    }
  });
}

// The probabilities of a block of queries against all keys before its end.
at::Tensor Probabilities(const at::Tensor& q, const at::Tensor& keys, int64_t first) {
  observe::Range range("scores");
  at::Tensor scores = at::bmm(q, keys.transpose(1, 2));
  range.Next("softmax");
  const observe::Range kernel("roofbench::softmax");
  WithElement(scores, [&](auto element) { CausalSoftmax<decltype(element)>(scores, first); });
  return scores;
}

class BlockedAttention : public Function<BlockedAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_rows, const at::Tensor& k_rows,
                            const at::Tensor& v_rows, const at::Tensor& cosines, const at::Tensor& sines,
                            int64_t heads) {
    const Heads shape{q_rows.size(0), q_rows.size(1), heads, q_rows.size(2) / heads};
    // The scale of the scores goes into the queries.
    const double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
    const at::Tensor q = SplitRotated(shape, q_rows, Angles::Of(cosines, sines, scale, /*backwards=*/false));
    const at::Tensor k = SplitRotated(shape, k_rows, Angles::Of(cosines, sines, 1, /*backwards=*/false));
    const at::Tensor v = Split(shape, v_rows);
    at::Tensor y = at::empty_like(q);
    for (int64_t first = 0; first < shape.tokens; first += kBlock) {
      const int64_t count = std::min(kBlock, shape.tokens - first);
      const at::Tensor p = Probabilities(q.narrow(1, first, count), k.narrow(1, 0, first + count), first);
      const observe::Range range("weighted sum");
      y.narrow(1, first, count).copy_(at::bmm(p, v.narrow(1, 0, first + count)));
    }
    context->save_for_backward({q, k, v, cosines, sines});
    context->saved_data["heads"] = heads;
    return Merged(shape, y);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const int64_t heads = context->saved_data["heads"].toInt();
    const Heads shape{q.size(0) / heads, q.size(1), heads, q.size(2)};
    const at::Tensor dy = Split(shape, upstream[0].contiguous());
    at::Tensor dq = at::empty_like(q);
    at::Tensor dk;
    at::Tensor dv;
    // From the last block, which has all keys: the gradients of keys and values add up over the blocks.
    for (int64_t end = shape.tokens; end > 0;) {
      const int64_t first = (end - 1) / kBlock * kBlock;
      const int64_t count = end - first;
      const at::Tensor queries = q.narrow(1, first, count);
      const at::Tensor keys = k.narrow(1, 0, end);
      const at::Tensor out = dy.narrow(1, first, count);
      const at::Tensor p = Probabilities(queries, keys, first);
      const at::Tensor dp = at::bmm(out, v.narrow(1, 0, end).transpose(1, 2));
      const at::Tensor ds = at::_softmax_backward_data(dp, p, -1, p.scalar_type());
      dq.narrow(1, first, count).copy_(at::bmm(ds, keys));
      Accumulate(dv, at::bmm(p.transpose(1, 2), out), /*alone=*/first == 0);
      Accumulate(dk, at::bmm(ds.transpose(1, 2), queries), /*alone=*/first == 0);
      end = first;
    }
    const at::Tensor &cosines = saved[3], &sines = saved[4];
    const double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
    return {MergedRotated(shape, dq, Angles::Of(cosines, sines, scale, /*backwards=*/true)),
            MergedRotated(shape, dk.to(k.scalar_type()), Angles::Of(cosines, sines, 1, /*backwards=*/true)),
            Merged(shape, dv.to(v.scalar_type())),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }

 private:
  // Adds to the first rows of `sum`, in fp32 unless it is alone.
  static void Accumulate(at::Tensor& sum, const at::Tensor& addend, bool alone) {
    if (!sum.defined()) {
      sum = alone ? addend : addend.to(at::kFloat);
    } else {
      sum.narrow(1, 0, addend.size(1)).add_(addend);
    }
  }
};

}  // namespace

at::Tensor NativeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RotaryTable& rope,
                           int64_t heads, Attention kind) {
  if (kind == Attention::kNaive || q.sizes() != k.sizes()) {
    return EagerLayers().attention(q, k, v, rope, heads, kind);
  }
  const int64_t tokens = q.size(1);
  return BlockedAttention::apply(q, k, v, rope.cosines().narrow(0, 0, tokens), rope.sines().narrow(0, 0, tokens),
                                 heads);
}

}  // namespace roofbench::models
