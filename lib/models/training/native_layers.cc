// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/native_layers.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "lib/aten/elements.h"
#include "lib/aten/onednn.h"
#include "lib/kernels/operators/elementwise/activations.h"
#include "lib/kernels/operators/elementwise/data_movement.h"
#include "lib/kernels/operators/rows/cross_entropy.h"
#include "lib/kernels/operators/rows/norm.h"
#include "lib/models/training/native_attention.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// What the products over parameters of type `storage` run in.
at::ScalarType ProductType(at::ScalarType storage) {
  return at::autocast::is_autocast_enabled(at::kCPU) ? at::kBFloat16 : storage;
}

// x[m,k] · weight[n,k]ᵀ. at::mm reaches oneDNN in bf16 alone: fp32 goes to a library that is half as fast on some
// processors.
at::Tensor Product(const at::Tensor& x, const at::Tensor& weight) {
  if (x.scalar_type() != at::kFloat) return at::mm(x, weight.t());
  const c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset);
  return OnednnLinear(x, weight);
}

at::Tensor ProductAndBias(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (x.scalar_type() != at::kFloat) return at::addmm(bias, x, weight.t());
  const c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset);
  return OnednnLinear(x, weight, bias);
}

// xᵀ, for the left side of a product: in fp32 a copy, because oneDNN reads a transposed matrix slower.
at::Tensor Turned(const at::Tensor& x) {
  if (x.scalar_type() != at::kFloat) return x.t();
  const at::Tensor plain = x.contiguous();
  const at::Tensor y = at::empty({x.size(1), x.size(0)}, x.options());
  const observe::Range kernel("roofbench::transpose");
  Run(kernels::Transpose{.x = Elements<float>(plain), .y = Elements<float>(y), .rows = x.size(0), .cols = x.size(1)},
      TorchThreads());
  return y;
}

class LinearFunction : public Function<LinearFunction> {
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
    return Product(rows, cast).view(shape);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& rows = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor dy = upstream[0].reshape({-1, upstream[0].size(-1)}).to(rows.scalar_type());
    std::vector<int64_t> shape = upstream[0].sizes().vec();
    shape.back() = weight.size(1);
    const at::Tensor dx = Product(dy, weight.t()).view(shape).to(context->saved_data["x"].toScalarType());
    const at::Tensor dw = Product(Turned(dy), rows.t()).to(context->saved_data["weight"].toScalarType());
    return {dx, dw};
  }
};

class NormFunction : public Function<NormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            double epsilon) {
    const at::Tensor x = input.contiguous();
    const at::Tensor wide = weight.to(at::kFloat);
    const int64_t cols = x.size(-1);
    const at::Tensor rstd = at::empty({x.numel() / cols}, wide.options());
    const at::Tensor y = at::empty_like(x);
    std::optional<observe::Range> kernel("roofbench::rms_norm");
    WithElement(x, [&](auto element) {
      using T = decltype(element);
      Run(kernels::RmsNorm<T>{.x = Elements<T>(x),
                              .y = Elements<T>(y),
                              .weight = Elements<float>(wide),
                              .rstd = Elements<float>(rstd),
                              .rows = rstd.numel(),
                              .cols = cols,
                              .eps = static_cast<float>(epsilon)},
          TorchThreads());
    });
    kernel.reset();
    context->save_for_backward({x, rstd, weight});
    return y.to(ProductType(weight.scalar_type()));
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& rstd = saved[1];
    const at::Tensor wide = saved[2].to(at::kFloat);
    const at::Tensor dy = upstream[0].contiguous().to(x.scalar_type());
    const kernels::ThreadPool pool = TorchThreads();
    const at::Tensor dx = at::empty_like(x);
    const at::Tensor dw = at::empty_like(wide);
    const at::Tensor scratch = at::empty({pool.threads(), 2, x.size(-1)}, wide.options());
    std::optional<observe::Range> kernel("roofbench::rms_norm_gradient");
    WithElement(x, [&](auto element) {
      using T = decltype(element);
      Run(kernels::NormGradient<T>{.x = Elements<T>(x),
                                   .dy = Elements<T>(dy),
                                   .weight = Elements<float>(wide),
                                   .rstd = Elements<float>(rstd),
                                   .dx = Elements<T>(dx),
                                   .dweight = Elements<float>(dw),
                                   .scratch = Elements<float>(scratch),
                                   .rows = rstd.numel(),
                                   .cols = x.size(-1)},
          pool);
    });
    kernel.reset();
    return {dx, dw.to(saved[2].scalar_type()), at::Tensor()};
  }
};

class GateFunction : public Function<GateFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up) {
    context->save_for_backward({gate, up});
    at::Tensor y = at::empty_like(gate);
    const observe::Range kernel("roofbench::silu_mul");
    WithElement(gate, [&](auto element) {
      using T = decltype(element);
      Run(kernels::SiluMul<T>{.gate = Elements<T>(gate), .up = Elements<T>(up), .y = Elements<T>(y), .n = gate.numel()},
          TorchThreads());
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
    const observe::Range kernel("roofbench::silu_mul_gradient");
    WithElement(gate, [&](auto element) {
      using T = decltype(element);
      Run(kernels::SiluMulGradient<T>{.gate = Elements<T>(gate),
                                      .up = Elements<T>(up),
                                      .dy = Elements<T>(dy),
                                      .d_gate = Elements<T>(d_gate),
                                      .d_up = Elements<T>(d_up),
                                      .n = gate.numel()},
          TorchThreads());
    });
    return {d_gate, d_up};
  }
};

// The mean loss, and its gradient by the logits in their place where `with_gradient`.
at::Tensor MeanLoss(const at::Tensor& logits, const at::Tensor& targets, bool with_gradient) {
  const at::Tensor losses = at::empty({targets.numel()}, at::kFloat);
  std::optional<observe::Range> kernel("roofbench::cross_entropy");
  WithElement(logits, [&](auto element) {
    using T = decltype(element);
    Run(kernels::CrossEntropy<T>{.x = Elements<T>(logits),
                                 .target = Elements<int64_t>(targets),
                                 .loss = Elements<float>(losses),
                                 .gradient = with_gradient ? Elements<T>(logits) : nullptr,
                                 .scale = 1 / static_cast<float>(targets.numel()),
                                 .rows = targets.numel(),
                                 .cols = logits.size(-1)},
        TorchThreads());
  });
  kernel.reset();
  return losses.mean();
}

// Loss and gradient in one pass: what backward keeps is the gradient, in the memory of the logits.
class CrossEntropyFunction : public Function<CrossEntropyFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& targets) {
    // Saved as a variable, which goes when backward has used it.
    context->save_for_backward({logits.detach()});
    return MeanLoss(logits, targets, /*with_gradient=*/true);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const at::Tensor gradient = context->get_saved_variables().front();
    // A loss is mostly followed from itself.
    const double scale = upstream[0].item<double>();
    return {scale == 1 ? gradient : gradient.mul(scale), at::Tensor()};
  }
};

class LinearGeluFunction : public Function<LinearGeluFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    const at::ScalarType type = ProductType(weight.scalar_type());
    const at::Tensor rows = x.to(type);
    const at::Tensor cast = weight.to(type);
    const at::Tensor sums = ProductAndBias(rows, cast, bias.to(type));
    at::Tensor y = at::empty_like(sums);
    const observe::Range kernel("roofbench::gelu");
    WithElement(sums, [&](auto element) {
      using T = decltype(element);
      Run(kernels::Gelu<T>{.x = Elements<T>(sums), .y = Elements<T>(y), .n = sums.numel()}, TorchThreads());
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
    std::optional<observe::Range> kernel("roofbench::gelu_gradient");
    WithElement(sums, [&](auto element) {
      using T = decltype(element);
      Run(
          kernels::GeluGradient<T>{
              .x = Elements<T>(sums), .dy = Elements<T>(dy), .dx = Elements<T>(d_sums), .n = sums.numel()},
          TorchThreads());
    });
    kernel.reset();
    const at::ScalarType storage = context->saved_data["weight"].toScalarType();
    at::Tensor dx;
    if (context->needs_input_grad(0)) {
      dx = Product(d_sums, saved[1].t()).to(context->saved_data["x"].toScalarType());
    }
    return {dx, Product(Turned(d_sums), rows.t()).to(storage), at::sum(d_sums, {0}, /*keepdim=*/false, storage)};
  }
};

at::Tensor NativeLinear(const at::Tensor& x, const at::Tensor& weight) { return LinearFunction::apply(x, weight); }
at::Tensor NativeNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return NormFunction::apply(x, weight, epsilon);
}
at::Tensor NativeGate(const at::Tensor& gate, const at::Tensor& up) { return GateFunction::apply(gate, up); }
at::Tensor NativeCrossEntropy(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor plain = logits.contiguous();
  if (at::GradMode::is_enabled() && logits.requires_grad())
    return CrossEntropyFunction::apply(plain, targets.contiguous());
  return MeanLoss(plain, targets.contiguous(), /*with_gradient=*/false);
}

}  // namespace

at::Tensor NativeLinearGelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return LinearGeluFunction::apply(x, weight, bias);
}

const LayerFunctions& NativeLayers() {
  static constexpr LayerFunctions kNative{.linear = NativeLinear,
                                          .norm = NativeNorm,
                                          .attention = NativeAttention,
                                          .gate = NativeGate,
                                          .cross_entropy = NativeCrossEntropy};
  return kNative;
}

}  // namespace roofbench::models
