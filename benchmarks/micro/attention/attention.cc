// SPDX-License-Identifier: Apache-2.0
// Attention of many queries at once, as training and prompts have it: arithmetic grows with the square of the length,
// and memory, too, where the scores are written down.
//
// 12 heads of 64 (GPT-2 small) and 32 over 8 of 128 (Llama-3-8B) at 1024 to 8192 tokens; the published sweep of the
// naive one (batch 8, one head, no mask) and that of FlashAttention (batch 1, causal, up to 65536 tokens).

#include <ATen/Context.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <array>
#include <optional>
#include <type_traits>

#include "benchmarks/micro/attention/operands.h"
#include "lib/aten/elements.h"
#include "lib/kernels/operators/attention/attention.h"

namespace roofbench {
namespace {

constexpr char kCausal[] = "causal";
constexpr char kAuto[] = "auto";

workload::Attention ShapeAt(const Point& at) {
  return {.batch = at.Number("batch"),
          .heads = at.Number("heads"),
          .kv_heads = at.Number("kv_heads"),
          .queries = at.Number("queries"),
          .keys = at.Number("keys"),
          .head_dim = at.Number("d"),
          .causal = at.Text("mask") == kCausal,
          .dtype = at.Dtype()};
}

// A backend of scaled_dot_product_attention, and how LibTorch allows it.
struct Backend {
  const char* name;
  bool on_cpu;
  bool takes_fp32;  // on GPUs
  bool (at::Context::*is_allowed)() const;
  void (at::Context::*allow)(bool);
};
constexpr std::array<Backend, 4> kBackends = {
    {{"math", true, true, &at::Context::userEnabledMathSDP, &at::Context::setSDPUseMath},
     {"flash", true, false, &at::Context::userEnabledFlashSDP, &at::Context::setSDPUseFlash},
     {"efficient", false, true, &at::Context::userEnabledMemEfficientSDP, &at::Context::setSDPUseMemEfficient},
     {"cudnn", false, false, &at::Context::userEnabledCuDNNSDP, &at::Context::setSDPUseCuDNN}}};

// While it lives, LibTorch may take this backend alone (auto: whichever it may take anyway).
class AllowedBackend {
 public:
  explicit AllowedBackend(const std::string& name) {
    for (std::size_t i = 0; i < kBackends.size(); ++i) {
      before_[i] = (at::globalContext().*kBackends[i].is_allowed)();
      if (name != kAuto) (at::globalContext().*kBackends[i].allow)(name == kBackends[i].name);
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
auto PrepareSdpa(AttentionOperands& o, const Point& at, Inputs&) {
  return [&o, backend = at.Text("backend")] {
    const AllowedBackend allowed(backend);
    const auto shared = [&](const at::Tensor& x) { return x.unsqueeze(1).expand({-1, o.q.size(1), -1, -1}); };
    o.y = at::scaled_dot_product_attention(o.q, shared(o.k), shared(o.v), std::nullopt, 0.0, o.causal);
  };
}

absl::Status SdpaSupports(const Point& at, const Device& device) {
  if (at.Text("mask") == kCausal && at.Int("queries") != at.Int("keys")) {
    return absl::UnimplementedError(
        "LibTorch's causal mask begins with the first key: queries must be as many as keys");
  }
  for (const Backend& backend : kBackends) {
    if (at.Text("backend") != backend.name) continue;
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

template <typename T>
kernels::HeadVectors<T> Heads(const at::Tensor& x) {
  return {Elements<std::remove_const_t<T>>(x), 0, x.stride(-3), x.stride(-2)};
}

template <typename T>
kernels::Attention<T> Kernel(AttentionOperands& o) {
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

auto PrepareNative(AttentionOperands& o, const Point& at, Inputs& in) {
  return WithDtype(at.Dtype(), [&]<typename T>(T) -> CaseStep {
    kernels::Attention<T> work = Kernel<T>(o);
    const at::Tensor scratch = in.Empty({ScratchFloats(work)}, at::kFloat);
    work.scratch = Elements<float>(scratch);
    return [run = KernelStep(work, in.device()), scratch](timing::PhaseMarker& marker) { run(marker); };
  });
}

absl::Status Supports(const Point& at, const Device&) {
  if (at.Int("heads") % at.Int("kv_heads") != 0) {
    return absl::InvalidArgumentError("heads must be a multiple of kv_heads, as each of these serves as many of those");
  }
  if (at.Text("mask") == kCausal && at.Int("queries") > at.Int("keys")) {
    return absl::InvalidArgumentError("with mask:causal the first queries would see no key; take no more than keys");
  }
  if (at.Text("backend") != kAuto && at.Text(kImplAxis) != "sdpa") {
    return absl::UnimplementedError("impl:sdpa alone has backends");
  }
  return absl::OkStatus();
}

// Sizes that belong together.
GridAxes Grid(const AxisList& impls, const AxisList& dtypes, GridAxes sizes) {
  sizes.insert(sizes.end(), {{"impl", impls}, {"dtype", dtypes}});
  return sizes;
}
GridAxes Gpt2(const AxisList& keys) { return {{"heads", {12}}, {"d", {64}}, {"keys", keys}}; }
GridAxes Llama3(const AxisList& keys) { return {{"heads", {32}}, {"kv_heads", {8}}, {"d", {128}}, {"keys", keys}}; }
GridAxes OneHead(const char* mask, int batch, const AxisList& keys) {
  return {{"mask", {mask}}, {"batch", {batch}}, {"heads", {1}}, {"d", {16, 32, 64, 128}}, {"keys", keys}};
}
GridAxes With(GridAxes axes, const std::string& axis, const AxisList& values) {
  axes.emplace_back(axis, values);
  return axes;
}

const AxisList kImpls = {"naive", "sdpa", "native"};

const Registration kAttention =
    AttentionFamily("attention", "y = softmax(q · kᵀ / sqrt(d)) · v for many queries at once", ShapeAt)
        .Choice("backend", {kAuto, "math", "flash", "efficient", "cudnn"}, "of sdpa; auto: what LibTorch takes", kAuto)
        .Dtypes({"fp32", "bf16", "fp16"})
        .Choice("mask", {kCausal, "none"},
                "causal: the last query sees all keys, each before it one less; what it hides is no work to those who "
                "skip it, all but naive and backend:math",
                kCausal)
        .Size("batch", "sequences", 1)
        .Size("heads", "of queries")
        .Size("kv_heads", "of keys and values, each for as many heads of queries", "heads")
        .Size("queries", "", "keys")
        .Size("keys")
        .Size("d", "length of a head")
        .Work([](const Point& at) {
          const bool writes_scores = at.Text(kImplAxis) == "naive" || at.Text("backend") == "math";
          return writes_scores ? ShapeAt(at).NaiveCost() : ShapeAt(at).FusedCost();
        })
        .Impl("sdpa", Prepared(PrepareSdpa))
        .When(SdpaSupports)
        .Impl("native", OnCpu(PrepareNative))
        .Takes({"fp32", "bf16"}, "our kernel computes in fp32 and bf16")
        .Supports(Supports)
        .Points(Suite::kQuick, Grid(kImpls, {"bf16"}, Gpt2({1024})))
        .Points(Suite::kStandard, Grid(kImpls, {"fp32", "bf16"}, Gpt2({1024, 2048})))
        .Points(Suite::kStandard, Grid(kImpls, {"fp32", "bf16"}, Llama3({2048})))
        .Points(Suite::kStandard,
                With(Grid({"sdpa"}, {"bf16"}, Gpt2({1024})), "backend", {"math", "flash", "efficient", "cudnn"}))
        .Points(Suite::kFull, Grid(kImpls, {"bf16"}, Llama3({8192})))
        .Points(Suite::kFull, Grid(kImpls, {"fp32"}, OneHead("none", 8, {256, 1024, 4096, 8192, 16384})))
        .Points(Suite::kFull, Grid(kImpls, {"fp32", "bf16"},
                                   OneHead(kCausal, 1, {128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536})))
        .Growth("keys", 2);

}  // namespace
}  // namespace roofbench
