// SPDX-License-Identifier: Apache-2.0
// A linear layer in fp8 (e4m3) as inference engines run it: weights were quantized before, activations are quantized in
// every step.
//
// The shapes are those of llm_int8_linear, whose precision:bf16 is the layer to compare with.

#include <ATen/TensorOperators.h>

#include <memory>

#include "benchmarks/micro/products/fp8_scales.h"
#include "benchmarks/micro/products/linear_reference.h"
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

Linear MakeLinear(const Point& at, Inputs& in) {
  const int64_t rows = at.Int("rows");
  const int64_t n = at.Int("n");
  const int64_t k = at.Int("k");
  return {.x = in.Randn({rows, k}, Dtype::kBf16),
          .weight = in.Randn({n, k}, Dtype::kFp8),
          .scale = DrawScales(in, 1, ScalesRows(at) ? n : 1),
          .y = in.Empty({rows, n}, Dtype::kBf16),
          .rows = in.SampleRows(rows),
          .scales = ScalesAt(at)};
}

// Some rows of x as products see them, in double precision; `all` has the largest magnitude of a scale per tensor.
at::Tensor SeenRows(const Linear& o, const at::Tensor& some, const at::Tensor& all) {
  const at::Tensor values = some.to(at::kDouble);
  const at::Tensor largest =
      o.scales == Fp8Scales::kRows ? values.abs().amax({1}, /*keepdim=*/true) : all.abs().max().to(at::kDouble);
  const at::Tensor scale = largest / kFp8Largest;
  return (values / scale).to(at::kFloat8_e4m3fn).to(at::kDouble).mul_(scale);
}

ExactWeight SeenWeight(const Linear& o) {
  const at::Tensor scale = o.scale.to(at::kDouble).expand({1, o.weight.size(0)}).t();
  return [&o, scale](int64_t first, int64_t count) {
    return o.weight.narrow(0, first, count).to(at::kDouble).mul_(scale.narrow(0, first, count));
  };
}

at::Tensor ReferenceRows(const Linear& o) {
  return ExactProduct(SeenRows(o, o.x.index_select(0, o.rows), o.x), o.weight.size(0), SeenWeight(o));
}

at::Tensor RowSums(const Linear& o) {
  const auto seen = [&o](const at::Tensor& rows) { return SeenRows(o, rows, o.x); };
  return ExactProductSums(o.x, seen, o.weight.size(0), SeenWeight(o));
}

void Eager(Linear& o, timing::PhaseMarker& marker) {
  const Fp8Matrix x = QuantizeFp8(o.x, o.scales);
  marker.End(kQuantize);
  ScaledMmOut(o.y, x.data, o.weight.t(), x.scale, o.scale);
  marker.End(kProduct);
}

workload::Fp8Linear WorkAt(const Point& at) {
  return {.m = at.Number("rows"), .n = at.Number("n"), .k = at.Number("k"), .row_scales = ScalesRows(at)};
}

void Describe(const Point& at, const std::shared_ptr<Linear>& o, Case& built) {
  built.phases = {"quantize", "product"};
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
        .Choice("scales", kScales, "in fp32: one per tensor, or one per row of x and W", "tensor")
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
