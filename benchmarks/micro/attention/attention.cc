// SPDX-License-Identifier: Apache-2.0
// Attention of many queries at once, as in training and prompts: arithmetic grows with the square of the length, and so
// does memory if the scores are stored.
//
// 12 heads of 64 (GPT-2 small) and 32 over 8 of 128 (Llama-3-8B) at 1024 to 8192 tokens; the published sweep of the
// naive one (batch 8, one head, no mask) and that of FlashAttention (batch 1, causal, up to 65536 tokens).

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "benchmarks/micro/attention/operands.h"
#include "lib/aten/elements.h"
#include "lib/kernels/operators/attention/attention.h"
#include "lib/kernels/operators/attention/attention_gradient.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "lib/kernels/threading/thread_pool.h"

namespace roofbench {
namespace {

constexpr char kBackendAxis[] = "backend";
constexpr char kAutoBackend[] = "auto";  // LibTorch's own choice

// impl:sdpa: LibTorch's scaled_dot_product_attention by one of its backends, with gradients by autograd.

// A backend of scaled_dot_product_attention, and how LibTorch allows it.
struct Backend {
  const char* name;
  bool on_cpu;
  bool takes_fp32;  // on GPUs
  bool takes_shared_heads;
  bool (at::Context::*is_allowed)() const;
  void (at::Context::*allow)(bool);
};
constexpr std::array<Backend, 4> kBackends = {
    {{"math", true, true, true, &at::Context::userEnabledMathSDP, &at::Context::setSDPUseMath},
     {"flash", true, false, true, &at::Context::userEnabledFlashSDP, &at::Context::setSDPUseFlash},
     {"efficient", false, true, true, &at::Context::userEnabledMemEfficientSDP, &at::Context::setSDPUseMemEfficient},
     {"cudnn", false, false, false, &at::Context::userEnabledCuDNNSDP, &at::Context::setSDPUseCuDNN}}};

// Restricts LibTorch to one backend during its lifetime; auto: no restriction, but to those that take keys which heads
// share without a copy (a stride of 0), for which cuDNN has no plan on some GPUs.
class AllowedBackend {
 public:
  AllowedBackend(const std::string& name, bool shares_heads) {
    for (std::size_t i = 0; i < kBackends.size(); ++i) {
      const Backend& backend = kBackends[i];
      before_[i] = (at::globalContext().*backend.is_allowed)();
      if (name != kAutoBackend) {
        (at::globalContext().*backend.allow)(name == backend.name);
      } else if (shares_heads && !backend.takes_shared_heads) {
        (at::globalContext().*backend.allow)(false);
      }
    }
  }
  AllowedBackend(const AllowedBackend&) = delete;
  AllowedBackend& operator=(const AllowedBackend&) = delete;
  ~AllowedBackend() {
    for (std::size_t i = 0; i < kBackends.size(); ++i) (at::globalContext().*kBackends[i].allow)(before_[i]);
  }

 private:
  std::array<bool, kBackends.size()> before_{};
};

// The heads of a group see the same keys without a copy of them for each, which enable_gqa would make.
at::Tensor Sdpa(const std::vector<at::Tensor>& qkv, bool causal, const std::string& backend) {
  const AllowedBackend allowed(backend, /*shares_heads=*/qkv[0].size(1) > 1);
  const auto shared = [&](const at::Tensor& x) { return x.unsqueeze(1).expand({-1, qkv[0].size(1), -1, -1}); };
  return at::scaled_dot_product_attention(qkv[0], shared(qkv[1]), shared(qkv[2]), std::nullopt, 0.0, causal);
}

// Copies of the operands that require gradients.
std::vector<at::Tensor> Leaves(const AttentionOperands& o) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& x : {o.q, o.k, o.v}) leaves.push_back(x.detach().requires_grad_(true));
  return leaves;
}

void Backward(AttentionOperands& o, const at::Tensor& y, const std::vector<at::Tensor>& leaves, bool again) {
  const std::vector<at::Tensor> gradients = torch::autograd::grad({y}, leaves, {o.dy}, /*retain_graph=*/again);
  o.dq = gradients[0];
  o.dk = gradients[1];
  o.dv = gradients[2];
}

// Blocks of scores on each thread, backward also of their gradients: in fp32, and once more in 16 bits; and sums.
double BlockBytes(const workload::Attention& shape, bool has_backward) {
  const double queries = shape.queries >= 768 ? 256 : shape.queries >= 192 ? 64 : 32;
  const double scores = queries * std::min(512.0, shape.keys);
  const double fp32 = ElementBytes(workload::Dtype::kFp32);
  const double reduced = shape.dtype == workload::Dtype::kFp32 ? 0 : ElementBytes(shape.dtype);
  const double sums = has_backward ? 0 : queries * (2 + shape.head_dim) * fp32;
  return at::get_num_threads() * ((has_backward ? 2 : 1) * scores * (fp32 + reduced) + sums);
}

// For a processor's tiles, LibTorch's kernel packs the keys and values of every head, and a block of them on each
// thread; as counted with LibTorch 2.11, in bf16 and forward.
double PackedBytes(const workload::Attention& shape) {
  constexpr double kFewest = 64;  // queries and keys
  if (shape.dtype != workload::Dtype::kBf16 || !kernels::HasTileRegisters(kernels::TileProduct::kBf16)) return 0;
  if (shape.queries < kFewest || shape.keys < kFewest) return 0;
  const double rows = 2 * shape.batch * shape.heads * shape.keys + at::get_num_threads() * std::min(512.0, shape.keys);
  return rows * shape.head_dim * ElementBytes(shape.dtype);
}

// The memory of LibTorch's flash attention on a processor in addition to operands and results, on all of its threads.
double SdpaScratchBytes(const workload::Attention& shape, const std::string& pass) {
  const double of_query = shape.batch * shape.heads * shape.queries;
  const double as_q = of_query * shape.head_dim * ElementBytes(shape.dtype);
  // y is a new tensor next to the previous one, and there is a number for each query.
  if (pass == kForward) {
    return as_q + of_query * ElementBytes(workload::Dtype::kFp32) + BlockBytes(shape, false) + PackedBytes(shape);
  }
  // As counted: y, three more tensors as large as q while gradients are made, and one where a group's are added up.
  const double group = shape.heads > shape.kv_heads ? 1 : 0;
  return ((pass == kBackward ? 4 : 5) + group) * as_q + BlockBytes(shape, true);
}

CaseStep PrepareSdpa(AttentionOperands& o, const Point& at, Inputs&) {
  const std::string backend = at.Text(kBackendAxis);
  if (!o.has_backward()) {
    return [&o, backend] { o.y = Sdpa({o.q, o.k, o.v}, o.causal, backend); };
  }
  if (o.has_forward) {
    return [&o, backend] {
      const std::vector<at::Tensor> leaves = Leaves(o);
      const at::Tensor y = Sdpa(leaves, o.causal, backend);
      Backward(o, y, leaves, /*again=*/false);
      o.y = y.detach();
    };
  }
  const at::AutoGradMode grad(true);
  const std::vector<at::Tensor> leaves = Leaves(o);
  return [&o, leaves, y = Sdpa(leaves, o.causal, backend)] { Backward(o, y, leaves, /*again=*/true); };
}

// Whether LibTorch has the point's backend.
absl::Status SdpaSupports(const Point& at, const Device& device) {
  if (at.Text(kMaskAxis) == kCausal && at.Int("queries") != at.Int("keys")) {
    return absl::UnimplementedError(
        "LibTorch's causal mask begins with the first key: queries must be as many as keys");
  }
  for (const Backend& backend : kBackends) {
    if (at.Text(kBackendAxis) != backend.name) continue;
    if (device.gpu() == nullptr && !backend.on_cpu) {
      return absl::UnimplementedError(absl::StrCat("LibTorch has backend:", backend.name, " on GPUs alone"));
    }
    if (device.gpu() != nullptr && !backend.takes_fp32 && at.Dtype() == workload::Dtype::kFp32) {
      return absl::UnimplementedError(
          absl::StrCat("LibTorch's backend:", backend.name, " is for 16-bit types on GPUs"));
    }
  }
  return absl::OkStatus();
}

// impl:native: our own kernels.

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

// Memory in addition to operands and results, on all of LibTorch's threads.
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

workload::Attention ShapeAt(const Point& at) {
  workload::Attention shape = ShapeOfHeads(at);
  shape.queries = at.Number("queries");
  shape.causal = at.Text(kMaskAxis) == kCausal;
  return shape;
}

workload::Cost CostAt(const Point& at) {
  const workload::Attention shape = ShapeAt(at);
  const std::string pass = at.Text(kPassAxis);
  const std::string impl = at.Text(kImplAxis);
  if (impl == "compiled") return shape.CompiledCost();
  if (impl == "naive" || at.Text(kBackendAxis) == "math") {
    return pass == kForward    ? shape.NaiveCost()
           : pass == kBackward ? shape.NaiveBackwardCost()
                               : shape.NaiveForwardBackwardCost();
  }
  workload::Cost cost = pass == kForward    ? shape.FusedCost()
                        : pass == kBackward ? shape.FusedBackwardCost()
                                            : shape.FusedForwardBackwardCost();
  cost.resident_bytes += impl == "native" ? NativeScratchBytes(shape, pass != kForward) : SdpaScratchBytes(shape, pass);
  return cost;
}

absl::Status Supports(const Point& at, const Device&) {
  if (absl::Status status = SupportsHeads(at); !status.ok()) return status;
  if (at.Text(kMaskAxis) == kCausal && at.Int("queries") > at.Int("keys")) {
    return absl::InvalidArgumentError(
        "with mask:causal the first queries would see no key; queries must not exceed keys");
  }
  if (at.Text(kBackendAxis) != kAutoBackend && at.Text(kImplAxis) != "sdpa") {
    return absl::UnimplementedError("impl:sdpa alone has backends");
  }
  return absl::OkStatus();
}

GridAxes OneHead(const char* mask, int batch, const AxisList& keys) {
  return {{"mask", {mask}}, {"batch", {batch}}, {"heads", {1}}, {"d", {16, 32, 64, 128}}, {"keys", keys}};
}
GridAxes With(GridAxes axes, const std::string& axis, const AxisList& values) {
  axes.emplace_back(axis, values);
  return axes;
}

const Registration kAttention =
    AttentionFamily("attention", "y = softmax(q · kᵀ / sqrt(d)) · v for many queries at once", ShapeAt)
        .Changing(
            [](const AttentionOperands& o) { return o.has_forward ? std::vector{o.q} : std::vector<at::Tensor>(); })
        .Choice(kBackendAxis, {kAutoBackend, "math", "flash", "efficient", "cudnn"},
                "of sdpa; auto: what LibTorch takes", kAutoBackend)
        .Passes({kForward, kBackward, kForwardBackward},
                "backward: the gradients of q, k and v from that of y, after a forward pass that is not timed")
        .Dtypes({"fp32", "bf16", "fp16"})
        .Choice(kMaskAxis, {kCausal, "none"},
                "causal: the last query sees all keys, each before it one less; all but naive and backend:math skip "
                "hidden keys",
                kCausal)
        .Size("batch", "sequences", 1)
        .Size("heads", "of queries")
        .Size("kv_heads", "of keys and values, each for as many heads of queries", "heads")
        .Size("queries", "", "keys")
        .Size("keys")
        .Size("d", "length of a head")
        .Work(CostAt)
        .Impl("sdpa", Prepared(PrepareSdpa))
        .When(SdpaSupports)
        .Impl("compiled",
              InPass(kForward,
                     Compiled([](const AttentionOperands& o) { return o.causal ? "attention_causal" : "attention"; },
                              [](const AttentionOperands& o) {
                                return std::vector{o.q, o.k, o.v};
                              })))
        .Takes({"fp32", "bf16"}, "packages are made for fp32 and bf16")
        .Impl("native", OnCpu(PrepareNative))
        .Takes({"fp32", "bf16"}, "our kernel computes in fp32 and bf16")
        .Supports(Supports)
        .Points(Suite::kQuick, Grid(kImpls, {"bf16"}, Gpt2({1024})))
        .Points(Suite::kStandard, Grid(kImpls, {"fp32", "bf16"}, Gpt2({1024, 2048})))
        .Points(Suite::kStandard, Grid(kImpls, {"fp32", "bf16"}, Llama3({2048})))
        .Points(Suite::kQuick, With(Grid(kImpls, {"bf16"}, Gpt2({1024})), kPassAxis, {kBackward}))
        .Points(Suite::kStandard, With(Grid(kImpls, {"fp32", "bf16"}, Gpt2({1024})), kPassAxis, {kBackward}))
        .Points(Suite::kStandard, With(Grid(kImpls, {"bf16"}, Gpt2({1024})), kPassAxis, {kForwardBackward}))
        .Points(Suite::kStandard, With(Grid({"sdpa", "native"}, {"bf16"}, Gpt2({2048})), kPassAxis, {kBackward}))
        .Points(Suite::kStandard, With(Grid({"sdpa", "native"}, {"bf16"}, Llama3({2048})), kPassAxis, {kBackward}))
        .Points(Suite::kStandard,
                With(Grid({"sdpa"}, {"bf16"}, Gpt2({1024})), kBackendAxis, {"math", "flash", "efficient", "cudnn"}))
        .Points(Suite::kStandard, Grid({"compiled"}, {"fp32", "bf16"}, Gpt2({1024})))
        .Points(Suite::kStandard, Grid({"compiled"}, {"bf16"}, Llama3({2048})))
        .Points(Suite::kFull, Grid(kImpls, {"bf16"}, Llama3({8192})))
        .Points(Suite::kFull, Grid(kImpls, {"fp32"}, OneHead("none", 8, {256, 1024, 4096, 8192, 16384})))
        .Points(Suite::kFull, Grid(kImpls, {"fp32", "bf16"},
                                   OneHead(kCausal, 1, {128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536})))
        .Points(Suite::kFull,
                With(Grid(kImpls, {"fp32"}, OneHead("none", 8, {256, 1024, 4096, 16384})), kPassAxis, {kBackward}))
        .Points(Suite::kFull,
                With(Grid(kImpls, {"bf16"}, OneHead(kCausal, 1, {1024, 4096, 16384})), kPassAxis, {kBackward}))
        .Growth("keys", 2);

}  // namespace
}  // namespace roofbench
