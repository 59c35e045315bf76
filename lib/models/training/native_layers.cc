// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/transformer_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <type_traits>

#include "lib/aten/attention.h"
#include "lib/aten/elements.h"
#include "lib/aten/measured_choice.h"
#include "lib/aten/precision_scopes.h"
#include "lib/aten/products.h"
#include "lib/aten/row_operations.h"
#include "lib/kernels/operators/attention/attention.h"
#include "lib/kernels/operators/attention/attention_gradient.h"
#include "lib/kernels/operators/elementwise/activations.h"
#include "lib/kernels/operators/elementwise/data_movement.h"
#include "lib/kernels/operators/elementwise/rope.h"
#include "lib/kernels/operators/rows/norm.h"
#include "lib/kernels/operators/rows/softmax.h"
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
void Rotate(const Heads& shape, const at::Tensor& x, const at::Tensor& y, const Angles& angles, bool split) {
  const int64_t width = shape.heads * shape.head_dim;
  const observe::Range kernel("roofbench::rope");
  WithElement(x, [&]<typename T>(T) {
    TorchThreads()(shape.all(), [&](kernels::Range range) {
      for (int64_t head = range.begin; head < range.end; ++head) {
        T* const apart =
            Elements<T>(x) + head / shape.heads * shape.tokens * width + head % shape.heads * shape.head_dim;
        T* const together = Elements<T>(y) + head * shape.tokens * shape.head_dim;
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
  });
}

at::Tensor SplitRotated(const Heads& shape, const at::Tensor& x, const Angles& angles) {
  at::Tensor y = at::empty({shape.all(), shape.tokens, shape.head_dim}, x.options());
  Rotate(shape, x.contiguous(), y, angles, /*split=*/true);
  return y;
}

at::Tensor MergedRotated(const Heads& shape, const at::Tensor& y, const Angles& angles) {
  at::Tensor x = at::empty({shape.batch, shape.tokens, shape.heads * shape.head_dim}, y.options());
  Rotate(shape, x, y, angles, /*split=*/false);
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

// Runs the kernel make(T()), where T is the element type of `tensor`, in a profiler range.
template <typename Make>
void RunKernel(const char* name, const at::Tensor& tensor, Make make) {
  const observe::Range kernel(name);
  WithElement(tensor, [&](auto element) { Run(make(element), TorchThreads()); });
}

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
    // The gradient of a rotation is the inverse rotation.
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

at::Tensor NativeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RotaryTable& rope,
                           int64_t heads, Attention kind) {
  if (kind == Attention::kNaive) return EagerLayers().attention(q, k, v, rope, heads, kind);
  const int64_t tokens = q.size(1);
  return FusedAttention::apply(q, k, v, rope.cosines().narrow(0, 0, tokens), rope.sines().narrow(0, 0, tokens), heads);
}

// The type of products with parameters of type `storage`.
at::ScalarType ProductType(at::ScalarType storage) { return Autocast::IsOn(at::kCPU) ? at::kBFloat16 : storage; }

// x[m,k] · weight[n,k]ᵀ (+ bias[n]). at::mm uses oneDNN only in bf16; its library for fp32 is half as fast on some
// processors.
at::Tensor LibraryProduct(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {}) {
  if (x.scalar_type() != at::kFloat) return bias ? at::addmm(*bias, x, weight.t()) : at::mm(x, weight.t());
  const c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset);
  return OnednnLinear(x, weight, bias);
}

// Which products in bf16 a layer takes: our own, or the faster of ours and LibTorch's.
enum class Kind : uint8_t { kOurs, kFaster };

// A product of x by tiles if they take it; kFaster: unless LibTorch was measured to be faster.
template <typename ByTiles, typename ByLibrary>
at::Tensor TiledProduct(Kind kind, const at::Tensor& x, ShapeClass shape, ByTiles by_tiles, ByLibrary by_library) {
  LayerProducts& products = LayerProducts::OfProcess();
  const bool takes_tiles = x.scalar_type() == at::kBFloat16 && x.size(0) >= kernels::kLeastTileLinearRows;
  if (products.tiles == nullptr || !takes_tiles) return by_library();
  shape.threads = TorchThreads().threads();
  const auto ours = [&] { return by_tiles(*products.tiles); };
  if (kind == Kind::kOurs || products.choice == nullptr ||
      products.choice->TakesOurs(
          shape, [&] { ours(); }, [&] { by_library(); })) {
    ++products.by_tiles;
    return ours();
  }
  ++products.by_library;
  return by_library();
}

// x[m,k] · weight[n,k]ᵀ (+ bias[n]).
at::Tensor Product(Kind kind, const at::Tensor& x, const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias = {}) {
  return TiledProduct(
      kind, x, {.operation = "addmm", .rows = x.size(0), .n = weight.size(0), .k = weight.size(1)},
      [&](const kernels::TileLinearKernels& tiles) {
        const observe::Range kernel("roofbench::linear by tiles");
        return LinearByTiles(&tiles)(x, weight, bias, TorchThreads());
      },
      [&] { return LibraryProduct(x, weight, bias); });
}

// xᵀ as the left operand of a product; in fp32 a copy, because oneDNN reads a transposed matrix more slowly.
at::Tensor Turned(const at::Tensor& x) {
  if (x.scalar_type() != at::kFloat) return x.t();
  const at::Tensor plain = x.contiguous();
  const at::Tensor y = at::empty({x.size(1), x.size(0)}, x.options());
  const observe::Range kernel("roofbench::transpose");
  Run(kernels::Transpose{.x = Elements<float>(plain), .y = Elements<float>(y), .rows = x.size(0), .cols = x.size(1)},
      TorchThreads());
  return y;
}

// x[m,k] · w[k,n] as `type`, where x may be Turned.
at::Tensor Gradient(Kind kind, const at::Tensor& x, const at::Tensor& w, at::ScalarType type) {
  const bool of_x = x.is_contiguous();
  return TiledProduct(
      kind, x.size(0) < x.size(1) ? x : x.t(),  // few rows, or few terms, would leave most of a tile empty
      {.operation = of_x ? "gradient of x" : "gradient of weight",
       .type = type,
       .rows = x.size(of_x ? 0 : 1),
       .n = x.size(of_x ? 1 : 0),
       .k = w.size(1)},
      [&](const kernels::TileLinearKernels& tiles) {
        const observe::Range kernel("roofbench::gradient by tiles");
        return MatmulByTiles(tiles, x, w, type, TorchThreads());
      },
      [&] { return LibraryProduct(x, w.t()).to(type); });
}

template <Kind kKind>
class LinearFunction : public Function<LinearFunction<kKind>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight) {
    const at::ScalarType type = ProductType(weight.scalar_type());
    const at::Tensor rows = x.reshape({-1, x.size(-1)}).to(type);
    const at::Tensor cast = weight.to(type);
    context->save_for_backward({rows, cast});
    context->saved_data["x"] = x.scalar_type();
    context->saved_data["weight"] = weight.scalar_type();
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return Product(kKind, rows, cast).view(shape);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& rows = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor dy = upstream[0].reshape({-1, upstream[0].size(-1)}).to(rows.scalar_type());
    std::vector<int64_t> shape = upstream[0].sizes().vec();
    shape.back() = weight.size(1);
    return {Gradient(kKind, dy, weight, context->saved_data["x"].toScalarType()).view(shape),
            Gradient(kKind, Turned(dy), rows, context->saved_data["weight"].toScalarType())};
  }
};

class NormFunction : public Function<NormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            double epsilon) {
    const at::Tensor x = input.contiguous();
    const at::Tensor rstd = at::empty({x.numel() / x.size(-1)}, x.options().dtype(at::kFloat));
    const observe::Range kernel("roofbench::rms_norm");
    const at::Tensor y = RmsNormOfRows(x, weight, epsilon, TorchThreads(), rstd);
    context->save_for_backward({x, rstd, weight});
    return y.to(ProductType(weight.scalar_type()));
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& rstd = saved[1];
    const at::Tensor wide = saved[2].to(at::kFloat);
    const at::Tensor dy = upstream[0].contiguous().to(x.scalar_type());
    const at::Tensor dx = at::empty_like(x);
    const at::Tensor dw = at::empty_like(wide);
    const at::Tensor scratch = at::empty({TorchThreads().threads(), 2, x.size(-1)}, wide.options());
    RunKernel("roofbench::rms_norm_gradient", x, [&]<typename T>(T) {
      return kernels::NormGradient<T>{.x = Elements<T>(x),
                                      .dy = Elements<T>(dy),
                                      .weight = Elements<float>(wide),
                                      .rstd = Elements<float>(rstd),
                                      .dx = Elements<T>(dx),
                                      .dweight = Elements<float>(dw),
                                      .scratch = Elements<float>(scratch),
                                      .rows = rstd.numel(),
                                      .cols = x.size(-1)};
    });
    return {dx, dw.to(saved[2].scalar_type()), at::Tensor()};
  }
};

class GateFunction : public Function<GateFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up) {
    context->save_for_backward({gate, up});
    at::Tensor y = at::empty_like(gate);
    RunKernel("roofbench::silu_mul", gate, [&]<typename T>(T) {
      return kernels::SiluMul<T>{
          .gate = Elements<T>(gate), .up = Elements<T>(up), .y = Elements<T>(y), .n = gate.numel()};
    });
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& gate = saved[0];
    const at::Tensor& up = saved[1];
    const at::Tensor dy = upstream[0].contiguous();
    at::Tensor d_gate = at::empty_like(gate);
    at::Tensor d_up = at::empty_like(up);
    RunKernel("roofbench::silu_mul_gradient", gate, [&]<typename T>(T) {
      return kernels::SiluMulGradient<T>{.gate = Elements<T>(gate),
                                         .up = Elements<T>(up),
                                         .dy = Elements<T>(dy),
                                         .d_gate = Elements<T>(d_gate),
                                         .d_up = Elements<T>(d_up),
                                         .n = gate.numel()};
    });
    return {d_gate, d_up};
  }
};

// The mean loss; `with_gradient` replaces the logits by its gradient.
at::Tensor MeanLoss(const at::Tensor& logits, const at::Tensor& targets, bool with_gradient) {
  const at::Tensor losses = at::empty({targets.numel()}, at::kFloat);
  RunKernel("roofbench::cross_entropy", logits, [&]<typename T>(T) {
    return kernels::CrossEntropy<T>{.x = Elements<T>(logits),
                                    .target = Elements<int64_t>(targets),
                                    .loss = Elements<float>(losses),
                                    .gradient = with_gradient ? Elements<T>(logits) : nullptr,
                                    .scale = 1 / static_cast<float>(targets.numel()),
                                    .rows = targets.numel(),
                                    .cols = logits.size(-1)};
  });
  return losses.mean();
}

// Loss and gradient in one pass. Backward keeps the gradient, in the memory of the logits.
class CrossEntropyFunction : public Function<CrossEntropyFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& targets) {
    // A saved variable is freed once backward has used it.
    context->save_for_backward({logits.detach()});
    return MeanLoss(logits, targets, /*with_gradient=*/true);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const at::Tensor gradient = context->get_saved_variables().front();
    // Mostly 1: backward usually starts at the loss.
    const double scale = upstream[0].item<double>();
    return {scale == 1 ? gradient : gradient.mul(scale), at::Tensor()};
  }
};

template <Kind kKind>
class LinearGeluFunction : public Function<LinearGeluFunction<kKind>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    const at::ScalarType type = ProductType(weight.scalar_type());
    const at::Tensor rows = x.to(type);
    const at::Tensor cast = weight.to(type);
    const at::Tensor sums = Product(kKind, rows, cast, bias.to(type));
    at::Tensor y = at::empty_like(sums);
    RunKernel("roofbench::gelu", sums, [&]<typename T>(T) {
      return kernels::Gelu<T>{.x = Elements<T>(sums), .y = Elements<T>(y), .n = sums.numel()};
    });
    context->save_for_backward({rows, cast, sums});
    context->saved_data["x"] = x.scalar_type();
    context->saved_data["weight"] = weight.scalar_type();
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& rows = saved[0];
    const at::Tensor& sums = saved[2];
    const at::Tensor dy = upstream[0].contiguous().to(sums.scalar_type());
    const at::Tensor d_sums = at::empty_like(sums);
    RunKernel("roofbench::gelu_gradient", sums, [&]<typename T>(T) {
      return kernels::GeluGradient<T>{
          .x = Elements<T>(sums), .dy = Elements<T>(dy), .dx = Elements<T>(d_sums), .n = sums.numel()};
    });
    const at::ScalarType storage = context->saved_data["weight"].toScalarType();
    at::Tensor dx;
    if (context->needs_input_grad(0)) dx = Gradient(kKind, d_sums, saved[1], context->saved_data["x"].toScalarType());
    return {dx, Gradient(kKind, Turned(d_sums), rows, storage), at::sum(d_sums, {0}, /*keepdim=*/false, storage)};
  }
};

at::Tensor NativeCrossEntropy(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor plain = logits.contiguous();
  if (at::GradMode::is_enabled() && logits.requires_grad())
    return CrossEntropyFunction::apply(plain, targets.contiguous());
  return MeanLoss(plain, targets.contiguous(), /*with_gradient=*/false);
}

}  // namespace

LayerProducts& LayerProducts::OfProcess() {
  static LayerProducts products;
  return products;
}

at::Tensor NativeLinearGelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return LinearGeluFunction<Kind::kOurs>::apply(x, weight, bias);
}

at::Tensor FastestLinearGelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return LinearGeluFunction<Kind::kFaster>::apply(x, weight, bias);
}

namespace {

template <Kind kKind>
const LayerFunctions& LayersBy() {
  static constexpr LayerFunctions kLayers{
      .linear = [](const at::Tensor& x, const at::Tensor& weight) { return LinearFunction<kKind>::apply(x, weight); },
      .norm = [](const at::Tensor& x, const at::Tensor& weight,
                 double epsilon) { return NormFunction::apply(x, weight, epsilon); },
      .attention = NativeAttention,
      .gate = [](const at::Tensor& gate, const at::Tensor& up) { return GateFunction::apply(gate, up); },
      .cross_entropy = NativeCrossEntropy};
  return kLayers;
}

}  // namespace

const LayerFunctions& NativeLayers() { return LayersBy<Kind::kOurs>(); }
const LayerFunctions& FastestLayers() { return LayersBy<Kind::kFaster>(); }

}  // namespace roofbench::models
