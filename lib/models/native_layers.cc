#include "lib/models/native_layers.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <malloc.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>
#include <optional>
#include <string_view>

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
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, c10::string_view,
                               c10::List<std::optional<at::Scalar>>, std::optional<c10::string_view>);
  static const auto linear =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Signature>();
  const c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset);
  return linear.call(x, weight, std::nullopt, "none", c10::List<std::optional<at::Scalar>>(), std::nullopt);
}

class Linear : public Function<Linear> {
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
    // oneDNN reads a transposed matrix slower than a copy of it.
    const at::Tensor turned = dy.scalar_type() == at::kFloat ? dy.t().contiguous() : dy.t();
    const at::Tensor dw = Product(turned, rows.t()).to(context->saved_data["weight"].toScalarType());
    return {dx, dw};
  }
};

class Norm : public Function<Norm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, double epsilon) {
    const double width = static_cast<double>(x.size(-1));
    const at::ScalarType exact = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor wide = x.to(exact);
    const at::Tensor rstd =
        at::linalg_vector_norm(wide, 2, {-1}, /*keepdim=*/true).square_().div_(width).add_(epsilon).rsqrt_();
    context->save_for_backward({x, rstd, weight});
    return wide.mul(rstd).mul_(weight).to(ProductType(weight.scalar_type()));
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& rstd = saved[1];
    const at::Tensor& weight = saved[2];
    const at::Tensor x = saved[0].to(rstd.scalar_type());
    const at::Tensor dy = upstream[0].to(rstd.scalar_type());
    const at::Tensor normed = x.mul(rstd);
    const at::Tensor dw = dy.mul(normed).flatten(0, -2).sum(0);
    const at::Tensor scaled = dy.mul(weight);
    const at::Tensor along = scaled.mul(normed).mean(-1, /*keepdim=*/true);
    at::Tensor dx = normed.mul_(along).neg_().add_(scaled).mul_(rstd);
    return {dx.to(saved[0].scalar_type()), dw.to(weight.scalar_type()), at::Tensor()};
  }
};

class Gate : public Function<Gate> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return at::silu(gate).mul_(up);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& gate = saved[0];
    const at::Tensor d_up = at::silu(gate).mul_(upstream[0]);
    return {at::silu_backward(saved[1].mul(upstream[0]), gate), d_up};
  }
};

class CrossEntropy : public Function<CrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& targets) {
    const at::ScalarType exact = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor log_probabilities = at::_log_softmax(logits.to(exact), -1, /*half_to_float=*/false);
    const at::Tensor loss = log_probabilities.gather(-1, targets.unsqueeze(-1)).mean().neg();
    context->save_for_backward({log_probabilities, targets});
    context->saved_data["logits"] = logits.scalar_type();
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor index = saved[1].unsqueeze(-1);
    const double share = 1 / static_cast<double>(saved[1].numel());
    // Softmax minus one at the target, in the memory of the log-probabilities: nobody reads those again.
    at::Tensor gradient = saved[0].exp_();
    gradient.scatter_add_(-1, index, at::ones_like(index, gradient.options()).neg_());
    gradient.mul_(upstream[0].mul(share));
    return {gradient.to(context->saved_data["logits"].toScalarType()), at::Tensor()};
  }
};

class Rotation : public Function<Rotation> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cosines,
                            const at::Tensor& sines) {
    context->saved_data["cosines"] = cosines;
    context->saved_data["sines"] = sines;
    return Turn(x, cosines, sines, /*backwards=*/false);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    return {Turn(upstream[0], context->saved_data["cosines"].toTensor(), context->saved_data["sines"].toTensor(),
                 /*backwards=*/true),
            at::Tensor(), at::Tensor()};
  }

 private:
  static at::Tensor Turn(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines, bool backwards) {
    return Rope(cosines, sines).Turn(x, 0, backwards);
  }
};

at::Tensor NativeLinear(const at::Tensor& x, const at::Tensor& weight) { return Linear::apply(x, weight); }
at::Tensor NativeNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return Norm::apply(x, weight, epsilon);
}
at::Tensor NativeGate(const at::Tensor& gate, const at::Tensor& up) { return Gate::apply(gate, up); }
at::Tensor NativeCrossEntropy(const at::Tensor& logits, const at::Tensor& targets) {
  return CrossEntropy::apply(logits, targets);
}
at::Tensor NativeRotate(const Rope& rope, const at::Tensor& x) {
  return Rotation::apply(x, rope.cosines(), rope.sines());
}

// Scopes of RetainedMemory alive.
std::atomic<int> g_retaining{0};

}  // namespace

const LayerFunctions& NativeLayers() {
  static constexpr LayerFunctions kNative{.linear = NativeLinear,
                                          .norm = NativeNorm,
                                          .rotate = NativeRotate,
                                          .gate = NativeGate,
                                          .cross_entropy = NativeCrossEntropy};
  return kNative;
}

RetainedMemory::RetainedMemory() {
#ifdef __GLIBC__
  if (g_retaining.fetch_add(1) == 0) {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
  }
#endif
}

RetainedMemory::~RetainedMemory() {
#ifdef __GLIBC__
  if (g_retaining.fetch_sub(1) == 1) {
    // glibc's defaults; the next case shall find the allocator as if this one had never been.
    constexpr int kMmapMax = 65536;
    constexpr int kTrimThreshold = 128 * 1024;
    mallopt(M_MMAP_MAX, kMmapMax);
    mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
    malloc_trim(0);
  }
#endif
}

}  // namespace roofbench::models
