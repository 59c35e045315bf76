// SPDX-License-Identifier: Apache-2.0
// Attention of many queries at once, as training and prompts have it: arithmetic grows with the square of the length,
// and memory, too, where the scores are written down.
//
// 12 heads of 64 (GPT-2 small) and 32 over 8 of 128 (Llama-3-8B) at 1024 to 8192 tokens; the published sweep of the
// naive one (batch 8, one head, no mask) and that of FlashAttention (batch 1, causal, up to 65536 tokens).

#include "benchmarks/micro/attention/native.h"
#include "benchmarks/micro/attention/operands.h"
#include "benchmarks/micro/attention/sdpa.h"

namespace roofbench {
namespace {

workload::Attention ShapeAt(const Point& at) {
  return {.batch = at.Number("batch"),
          .heads = at.Number("heads"),
          .kv_heads = at.Number("kv_heads"),
          .queries = at.Number("queries"),
          .keys = at.Number("keys"),
          .head_dim = at.Number("d"),
          .causal = at.Text(kMaskAxis) == kCausal,
          .dtype = at.Dtype()};
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
  if (at.Int("heads") % at.Int("kv_heads") != 0) {
    return absl::InvalidArgumentError("heads must be a multiple of kv_heads, as each of these serves as many of those");
  }
  if (at.Text(kMaskAxis) == kCausal && at.Int("queries") > at.Int("keys")) {
    return absl::InvalidArgumentError("with mask:causal the first queries would see no key; take no more than keys");
  }
  if (at.Text(kBackendAxis) != kAutoBackend && at.Text(kImplAxis) != "sdpa") {
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
        .Choice(kBackendAxis, {kAutoBackend, "math", "flash", "efficient", "cudnn"},
                "of sdpa; auto: what LibTorch takes", kAutoBackend)
        .Passes({kForward, kBackward, kForwardBackward},
                "backward: the gradients of q, k and v from that of y, after a forward pass that is not timed")
        .Dtypes({"fp32", "bf16", "fp16"})
        .Choice(kMaskAxis, {kCausal, "none"},
                "causal: the last query sees all keys, each before it one less; what it hides is no work to those who "
                "skip it, all but naive and backend:math",
                kCausal)
        .Size("batch", "sequences", 1)
        .Size("heads", "of queries")
        .Size("kv_heads", "of keys and values, each for as many heads of queries", "heads")
        .Size("queries", "", "keys")
        .Size("keys")
        .Size("d", "length of a head")
        .Work(CostAt)
        .Details([](const Point& at, const auto& o, Case& built) {
          if (at.Text(kImplAxis) == "naive") built.phases = {"scores", "softmax", "weighted_sum"};
          built.autograd = at.Text(kImplAxis) == "sdpa" && o->has_backward();
        })
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
