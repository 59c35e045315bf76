// SPDX-License-Identifier: Apache-2.0
// A linear layer in fp8 (e4m3) as inference engines run it: weights were quantized before, activations are quantized in
// every step.
//
// The shapes are those of llm_int8_linear, whose precision:bf16 is the layer to compare with.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "lib/aten/fp8.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/products.h"

namespace roofbench {
namespace {

using workload::Dtype;

enum Phase { kQuantize, kProduct };

struct Linear {
  at::Tensor x;       // bf16 [rows, k]
  at::Tensor weight;  // fp8 [n, k]
  at::Tensor scale;   // fp32 [1, n] or [1, 1]
  at::Tensor y;       // bf16 [rows, n]
  at::Tensor rows;    // of y that are compared
  Fp8Scales scales;
};

Fp8Scales ScalesAt(const Point& at) { return at.Text("scales") == "row" ? Fp8Scales::kRows : Fp8Scales::kTensor; }

Linear MakeLinear(const Point& at, Inputs& in) {
  const int64_t rows = at.Int("rows");
  const int64_t n = at.Int("n");
  const int64_t k = at.Int("k");
  const Fp8Scales scales = ScalesAt(at);
  return {.x = in.Randn({rows, k}, Dtype::kBf16),
          .weight = in.Randn({n, k}, Dtype::kFp8),
          .scale = in.Keep([&](at::Generator& generator) {
            return at::rand({1, scales == Fp8Scales::kRows ? n : 1}, generator).mul_(0.01).add_(0.01);
          }),
          .y = in.Empty({rows, n}, Dtype::kBf16),
          .rows = in.SampleRows(rows),
          .scales = scales};
}

// Some rows of x as products see them, in double precision; `all` has the largest magnitude of a scale a tensor.
at::Tensor SeenRows(const Linear& o, const at::Tensor& some, const at::Tensor& all) {
  const at::Tensor values = some.to(at::kDouble);
  const at::Tensor largest =
      o.scales == Fp8Scales::kRows ? values.abs().amax({1}, /*keepdim=*/true) : all.abs().max().to(at::kDouble);
  const at::Tensor scale = largest / kFp8Largest;
  return (values / scale).to(at::kFloat8_e4m3fn).to(at::kDouble).mul_(scale);
}

// Calls use(block of the weight, in double precision) for all blocks: the whole may not fit in memory.
template <typename Use>
void EachBlock(const Linear& o, Use use) {
  constexpr int64_t kBlock = 1024;
  const at::Tensor scale = o.scale.to(at::kDouble).expand({1, o.weight.size(0)}).t();
  for (int64_t first = 0; first < o.weight.size(0); first += kBlock) {
    const int64_t count = std::min(kBlock, o.weight.size(0) - first);
    use(o.weight.narrow(0, first, count).to(at::kDouble).mul_(scale.narrow(0, first, count)));
  }
}

at::Tensor ReferenceRows(const Linear& o) {
  const at::Tensor x = SeenRows(o, o.x.index_select(0, o.rows), o.x);
  std::vector<at::Tensor> columns;
  EachBlock(o, [&](const at::Tensor& weight) { columns.push_back(at::mm(x, weight.t())); });
  return at::cat(columns, 1);
}

// X · (Wᵀ · 1), some rows at a time.
at::Tensor RowSums(const Linear& o) {
  constexpr int64_t kBlock = 256;
  at::Tensor sums = at::zeros({o.weight.size(1)}, o.x.options().dtype(at::kDouble));
  EachBlock(o, [&](const at::Tensor& weight) { sums.add_(weight.sum(0)); });
  std::vector<at::Tensor> of_rows;
  for (const at::Tensor& x : o.x.split(kBlock)) of_rows.push_back(at::mv(SeenRows(o, x, o.x), sums));
  return at::cat(of_rows);
}

void Eager(Linear& o, timing::PhaseMarker& marker) {
  const Fp8Matrix x = QuantizeFp8(o.x, o.scales);
  marker.End(kQuantize);
  ScaledMmOut(o.y, x.data, o.weight.t(), x.scale, o.scale);
  marker.End(kProduct);
}

workload::Fp8Linear WorkAt(const Point& at) {
  return {
      .m = at.Number("rows"), .n = at.Number("n"), .k = at.Number("k"), .row_scales = ScalesAt(at) == Fp8Scales::kRows};
}

void Describe(const Point& at, const std::shared_ptr<Linear>& o, Case& built) {
  built.phases = {"quantise", "product"};
  if (!o->x.is_cpu()) return;
  built.cost = WorkAt(at).ForwardCost();
  built.cost->resident_bytes += WorkAt(at).Product().Fp8ConversionBytes();
}

GridAxes Grid(const AxisList& scales, const AxisList& rows, const AxisList& n, const AxisList& k = {"n"}) {
  return {{"scales", scales}, {"rows", rows}, {"n", n}, {"k", k}};
}

const AxisList kScales = {"tensor", "row"};
// Many rows first: tests take the first size of each kind, and one row has one scale in any case.
const AxisList kRows = {64, 1, 4, 8, 16, 512, 2048};

const Registration kFp8Linear =
    FamilyOf<Linear>("fp8_linear", "y[rows,n] = x[rows,k] · W[n,k]ᵀ in fp8 (e4m3), x quantized in every step")
        .Choice("scales", kScales, "in fp32: one a tensor, or one a row of x and W", "tensor")
        .Size("rows", "of x: tokens")
        .Size("n", "rows of W: outputs")
        .Size("k", "columns of W", "n")
        .Work(WorkAt)
        .Operands(MakeLinear)
        .Reference(ReferenceRows)
        .RowSums(RowSums)
        .Within([](const Point& at) { return Tolerance{.dtype = Dtype::kBf16, .reduction = at.Number("k")}; })
        .Details(Describe)
        .Impl("eager", Eager)
        .Supports([](const Point& at, const Device& device) {
          const char* const why = ScaledMmRefuses(ScalesAt(at), at.Int("n"), at.Int("k"), device.gpu() != nullptr);
          return why == nullptr ? absl::OkStatus() : absl::UnimplementedError(why);
        })
        .Points(Suite::kQuick, Grid({"tensor"}, {64, 1}, {2048}))
        .Points(Suite::kStandard, Grid(kScales, kRows, {4096}))
        .Points(Suite::kFull, Grid(kScales, kRows, {6144, 28672}, {4096}))
        .Points(Suite::kFull, Grid(kScales, kRows, {4096}, {14336}))
        .Growth("n", 2);

}  // namespace
}  // namespace roofbench
