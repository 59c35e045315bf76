// SPDX-License-Identifier: Apache-2.0
// Attention of one new token of each sequence over a cache of keys and values: every byte of it is read once, for all
// the query heads that share a head, so that memory bandwidth is the roof.
//
// The heads of GPT-2 small (12 of 64) and Llama-3-8B (32 over 8 of 128); 4096 keys of the latter are 16 MiB in bf16.

#include <ATen/ops/scaled_dot_product_attention.h>

#include "benchmarks/micro/attention/operands.h"
#include "lib/aten/elements.h"
#include "lib/kernels/operators/attention/decode_attention.h"

namespace roofbench {
namespace {

constexpr char kPageAxis[] = "page";
constexpr char kContiguous[] = "none";

double PageAt(const Point& at) { return at.Text(kPageAxis) == kContiguous ? 0 : at.Number(kPageAxis); }

workload::Attention ShapeAt(const Point& at) {
  workload::Attention shape = ShapeOfHeads(at);
  shape.queries = 1;
  shape.page = PageAt(at);
  return shape;
}

// The queries of a group are as many queries of the head that they share: no copy of it for each, which enable_gqa
// would make.
void Sdpa(AttentionOperands& o) {
  const at::Tensor folded = o.q.transpose(1, 2);  // [batch · kv_heads, 1, group, d]
  o.y = at::scaled_dot_product_attention(folded, o.k.unsqueeze(1), o.v.unsqueeze(1)).transpose(1, 2);
}

template <typename Function>
CaseStep WithCacheElement(workload::Dtype dtype, Function function) {
  if (dtype == workload::Dtype::kInt8) return function(int8_t());
  if (dtype == workload::Dtype::kFp16) return function(kernels::Fp16());
  return WithDtype(dtype, function);
}

// Queries and results are fp32, as the decoder has them.
auto PrepareNative(AttentionOperands& o, const Point& at, Inputs& in) {
  const at::Tensor q = in.Keep(o.q.to(at::kFloat));
  o.y = in.Empty(o.q.sizes(), at::kFloat);
  return WithCacheElement(at.Dtype(), [&]<typename T>(T) -> CaseStep {
    kernels::DecodeAttention<T> work{.q = Elements<float>(q),
                                     .keys = Elements<T>(o.k),
                                     .values = Elements<T>(o.v),
                                     .y = Elements<float>(o.y),
                                     .heads = o.q.size(0),
                                     .group = o.q.size(1),
                                     .head_dim = o.q.size(3),
                                     .length = o.keys,
                                     .capacity = o.keys};
    if (o.k_factors.defined()) {
      work.key_scales = Elements<float>(o.k_factors);
      work.value_scales = Elements<float>(o.v_factors);
    }
    if (o.blocks.defined()) {
      work.pages = {Elements<int32_t>(o.blocks), o.blocks.size(1), o.k.size(2), o.k.size(1)};
    }
    const at::Tensor scratch = in.Empty({ScratchFloats(work, in.device().threads())}, at::kFloat);
    work.scratch = Elements<float>(scratch);
    return [run = KernelStep(work, in.device()), q, scratch] { run(); };
  });
}

absl::Status OneArray(const Point& at, const Device&) {
  if (PageAt(at) == 0) return absl::OkStatus();
  return absl::UnimplementedError("impl:native alone reads a cache in blocks");
}

absl::Status NativeSupports(const Point& at, const Device&) {
  if (at.Int("d") <= kernels::kMostHeadDim) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("our kernel takes heads of up to ", kernels::kMostHeadDim, " elements"));
}

GridAxes InBlocks(GridAxes sizes) {
  sizes.emplace_back(kPageAxis, AxisList{"16", "64"});
  return sizes;
}

constexpr char kFloatsAlone[] = "LibTorch's operators have no attention over integers";

const Registration kDecodeAttention =
    AttentionFamily("decode_attention", "attention of one query a sequence over a cache of keys and values", ShapeAt)
        .Work([](const Point& at) {
          return at.Text(kImplAxis) == "naive" ? ShapeAt(at).NaiveCost() : ShapeAt(at).FusedCost();
        })
        // Ours converts the query beforehand: the result is overwritten alone.
        .Changing([](const AttentionOperands&) { return std::vector<at::Tensor>(); })
        .Dtypes({"fp32", "bf16", "fp16", "int8"}, "of the cache; of int8, each key and value of a head has a factor")
        .Choice(kPageAxis, {kContiguous, "16", "64"},
                "tokens of a block of the cache, which a table finds; none: the keys of a head lie side by side",
                kContiguous)
        .Size("batch", "sequences, each with a cache of its own", 1)
        .Size("heads", "of queries")
        .Size("kv_heads", "of keys and values, each for as many heads of queries", "heads")
        .Size("keys", "tokens in the cache")
        .Size("d", "length of a head")
        .Impl("naive")
        .Takes({"fp32", "bf16", "fp16"}, kFloatsAlone)
        .When(OneArray)
        .Impl("sdpa", Sdpa)
        .Takes({"fp32", "bf16", "fp16"}, kFloatsAlone)
        .When(OneArray)
        .Impl("compiled", Compiled("attention",
                                   [](const AttentionOperands& o) {
                                     return std::vector{o.q, o.k, o.v};
                                   }))
        .Takes({"fp32", "bf16"}, "packages are made for fp32 and bf16")
        .When(OneArray)
        .Impl("native", OnCpu(PrepareNative))
        .When(NativeSupports)
        .Supports([](const Point& at, const Device&) { return SupportsHeads(at); })
        .Points(Suite::kQuick, Grid(kImpls, {"bf16"}, Llama3({4096})))
        .Points(Suite::kStandard, Grid(kImpls, {"fp32", "bf16"}, Llama3({1024, 4096, 16384})))
        .Points(Suite::kStandard, Grid(kImpls, {"fp32", "bf16"}, Gpt2({4096})))
        .Points(Suite::kStandard, Grid(kImpls, {"bf16"}, Llama3({4096}, {8})))
        .Points(Suite::kStandard, Grid({"compiled"}, {"bf16"}, Llama3({4096})))
        .Points(Suite::kStandard, Grid({"native"}, {"int8"}, Llama3({4096}, {1, 8})))
        .Points(Suite::kStandard, Grid({"native"}, {"bf16", "int8"}, InBlocks(Llama3({4096}))))
        .Points(Suite::kFull, Grid({"native"}, {"int8"}, Gpt2({4096}, {1, 8})))
        .Points(Suite::kFull, Grid({"native"}, {"bf16", "int8"}, InBlocks(Gpt2({4096}, {8}))))
        .Points(Suite::kFull, Grid({"sdpa", "native"}, {"fp16"}, Llama3({4096})))
        .Points(Suite::kFull, Grid(kImpls, {"bf16"}, Llama3({128, 512, 2048, 8192, 32768, 131072}, {1, 8, 64})))
        .Points(Suite::kFull, Grid(kImpls, {"bf16"}, Gpt2({128, 1024, 4096, 32768}, {8})))
        .Growth("keys", 1);

}  // namespace
}  // namespace roofbench
