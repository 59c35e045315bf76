// SPDX-License-Identifier: Apache-2.0
// y = W · x with weights in fp32, bf16, int8 and int4: the bound of token generation on every device.
//
// Squares from 1024 (2 MiB of bf16: an L2 or two) to 16384 (512 MiB), as gpt_fast takes them; rectangles: the fused
// QKV, the feed-forward and the head of Llama-3-8B. Cold: the weights come from memory, as in a model that is larger
// than the caches.

#include <ATen/ops/matmul.h>

#include "benchmarks/micro/products/weight_operand.h"
#include "lib/aten/products.h"
#include "lib/workload/operators/products.h"

namespace roofbench {
namespace {

using workload::WeightFormat;

WeightProduct MakeGemv(const Point& at, Inputs& in) {
  const at::Tensor rows = in.SampleRows(at.Int("n")).clone();  // that stay: their weights are kept
  return {.rows = rows,
          .weight = MakeWeight(at, in, {.n = at.Int("n"), .k = at.Int("k"), .group = at.Int("group")}, rows),
          .x = in.Randn({at.Int("batch"), at.Int("k")}, ActivationAt(at)),
          .y = in.Empty({at.Int("batch"), at.Int("n")}, ActivationAt(at))};
}

auto PrepareOnednn(WeightProduct& o, const Point&, Inputs&) {
  const at::Tensor packed = OnednnPack(o.weight.data[0], o.x.size(0));
  o.weight.data.reset();  // otherwise it would stay in memory while the case is sampled
  return [&o, packed] { o.y = OnednnLinear(o.x, packed); };
}

absl::Status EagerSupports(const Point& at, const Device& device) {
  if (absl::Status status = TorchTakes(at, at.Int("k"), device); !status.ok()) return status;
  if (FormatAt(at) != WeightFormat::kInt4) return absl::OkStatus();
  if (at.Int("n") % 16 != 0) {
    return absl::UnimplementedError("LibTorch packs int4 weights in blocks of 16 rows: n must be a multiple of 16");
  }
  if (device.gpu() != nullptr && at.Int("k") % kTorchInt4Columns != 0) {
    return absl::UnimplementedError(
        "LibTorch packs int4 weights for a GPU in blocks of 128 columns: k must be a multiple of 128");
  }
  return absl::OkStatus();
}

absl::Status Supports(const Point& at, const Device&) {
  if (FormatAt(at) == WeightFormat::kInt4 && at.Int("k") % at.Int("group") != 0) {
    return absl::UnimplementedError("k must be a multiple of group");
  }
  return absl::OkStatus();
}

const AxisList kSquares = {1024, 4096, 8192, 16384};

GridAxes Grid(AxisList impls, AxisList precisions, AxisList n, AxisList k = {"n"}, AxisList batch = {1}) {
  return {{"impl", std::move(impls)},
          {"precision", std::move(precisions)},
          {"batch", std::move(batch)},
          {"n", std::move(n)},
          {"k", std::move(k)}};
}

const Registration kGemv =
    WeightProducts("gemv", "y = W · x, weights in fp32, bf16, int8 or int4", {"fp32", "bf16", "int8", "int4"}, "k")
        .Choice("group", {32, 64, 128, 256}, "weights a scale, of int4", 128)
        .Size("batch", "vectors that share the weights", 1)
        .Size("n", "rows of W: outputs")
        .Size("k", "columns of W", "n")
        .Work([](const Point& at) {
          const workload::Gemv work{at.Number("n"), at.Number("k"), FormatAt(at), at.Number("group"),
                                    at.Number("batch")};
          return CostAt(at, work.ForwardCost(), /*matrices=*/1);
        })
        .Operands(MakeGemv)
        .Reference([](const WeightProduct& o) { return at::matmul(o.x.to(at::kDouble), o.weight.exact_rows()[0].t()); })
        .Impl("eager", [](WeightProduct& o) { TorchProduct(o.weight, 0, o.x, o.y); })
        .When(EagerSupports)
        .Impl("onednn", OnCpu(PrepareOnednn))
        .Takes({"fp32", "bf16"},
               "LibTorch's oneDNN has no product of 16-bit activations with quantized weights, and "
               "none on GPUs")
        .Impl("compiled", Compiled([](WeightProduct& o) { return IsInt8(o) ? "gemv_int8" : "gemv"; },
                                   [](WeightProduct& o) {
                                     std::vector<at::Tensor> tensors = {o.x, o.weight.data[0]};
                                     if (IsInt8(o)) tensors.push_back(o.weight.scales[0]);
                                     return tensors;
                                   }))
        .Takes({"fp32", "bf16", "int8"}, "int4 weights lie as LibTorch's own operator packs them")
        .Supports(Supports)
        .Points(Suite::kQuick, Grid({"eager", "native"}, {"bf16", "int8", "int4"}, {4096}))
        .Points(Suite::kQuick, Grid({"onednn"}, {"bf16"}, {4096}))
        .Points(Suite::kStandard,
                {{"impl", {"eager", "native"}}, {"precision", {"int4"}}, {"group", {32, 64}}, {"n", {4096}}})
        .Points(Suite::kStandard, Grid({"eager", "native"}, {"fp32", "bf16", "int8", "int4"}, kSquares))
        .Points(Suite::kStandard, Grid({"onednn"}, {"fp32", "bf16"}, kSquares))
        .Points(Suite::kStandard, Grid({"compiled"}, {"bf16", "int8"}, kSquares))
        .Points(Suite::kStandard, Grid({"eager", "native"}, {"bf16", "int8", "int4"}, {4096}, {"n"}, {2, 4, 8}))
        .Points(Suite::kFull, Grid({"eager", "native"}, {"bf16", "int8", "int4"}, {6144, 14336, 128256}, {4096}))
        .Points(Suite::kFull, Grid({"onednn"}, {"bf16"}, {6144, 14336, 128256}, {4096}))
        .Points(Suite::kFull, Grid({"eager", "native"}, {"bf16", "int8", "int4"}, {4096}, {14336}))
        .Points(Suite::kFull, Grid({"onednn"}, {"bf16"}, {4096}, {14336}))
        .Growth("n", 2);

}  // namespace
}  // namespace roofbench
