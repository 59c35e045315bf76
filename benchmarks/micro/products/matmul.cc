// SPDX-License-Identifier: Apache-2.0
// C = A · B: the arithmetic roof, on squares and on the rectangles of language models.
//
// Squares from 256 (three fp32 operands fit an L2) to 16384 (they fill a GPU). Rectangles: 1, 16 and 256 tokens against
// a 4096 x 4096 attention projection and a 4096 x 14336 feed-forward one (Llama-3-8B, Mixtral); with one token the
// product is bound by the weights' bytes, with 256 by arithmetic.
//
// What the operands hold decides how much power each bit that changes takes, and with it the clock that a GPU keeps
// under its power limit: random, zero and integer operands of the size that comes to that limit.
//
// Operands in fp8 have scales, as a quantizer makes them. The reference multiplies the same numbers, so that only sums
// and the rounding of C to bf16 count as errors.

#include <ATen/ops/_int_mm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>

#include <memory>
#include <vector>

#include "benchmarks/micro/products/fp8_scales.h"
#include "lib/aten/elements.h"
#include "lib/aten/fp8.h"
#include "lib/aten/products.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/suite/check.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/products.h"

namespace roofbench {
namespace {

using workload::Dtype;

struct Matmul {
  at::Tensor a, b, y, rows;               // `rows`: the ones that are compared
  at::Tensor scale_a = {}, scale_b = {};  // of fp8: [m,1] and [1,n], or both [1,1]
};

// impl:native: the product by tiles. B is packed once, as a layer packs its weight, and not timed; A is packed in each
// step.
template <kernels::TileProduct kProduct>
std::function<void()> ByTiles(Matmul& o, Inputs& in) {
  using X = kernels::TileFactor<kProduct>;
  const int threads = in.device().threads();
  const int64_t k = o.a.size(1);
  const int64_t n = o.b.size(1);
  const int64_t row_bytes = k * static_cast<int64_t>(sizeof(X));
  const at::Tensor panels = in.Keep([&](at::Generator&) {
    at::Tensor packed = at::empty({kernels::PanelBytes(n, kernels::TileSteps(row_bytes))}, at::kByte);
    kernels::PackTileColumns(static_cast<const std::byte*>(o.b.const_data_ptr()), n, row_bytes, row_bytes,
                             static_cast<std::byte*>(packed.mutable_data_ptr()), kernels::ThreadPool(threads));
    return packed;
  });
  return kernels::WithTiles<kProduct>([&](auto product) -> std::function<void()> {
    product.x = Elements<X>(o.a);
    product.w = static_cast<const std::byte*>(panels.const_data_ptr());
    product.output = {Elements<kernels::TileResult<kProduct>>(o.y), n};
    product.m = o.a.size(0);
    product.n = n;
    product.k = k;
    return [product, threads, panels] { product(kernels::ThreadPool(threads)); };
  });
}

kernels::TileProduct ProductOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
      return kernels::TileProduct::kFp32;
    case Dtype::kInt8:
      return kernels::TileProduct::kInt8;
    default:
      return kernels::TileProduct::kBf16;
  }
}

absl::Status TilesSupport(const Point& at, const Device&) {
  if (kernels::HasTiles(ProductOf(at.Dtype()))) return absl::OkStatus();
  return absl::UnimplementedError(
      "impl:native multiplies with tiles (Intel AMX) or AVX-512's instructions for this dtype, which this processor or "
      "its system lacks; impl:eager and impl:onednn run everywhere");
}

at::ScalarType ResultType(Dtype dtype) {
  if (dtype == Dtype::kInt8) return at::kInt;
  return StorageType(dtype == Dtype::kFp8 ? Dtype::kBf16 : dtype);
}

constexpr char kDataAxis[] = "data";
constexpr char kNormal[] = "normal";
constexpr char kZeros[] = "zeros";
constexpr char kIntegers[] = "integers";

// A or B, of which dimension `inner` is k. A clone holds its values already, which this leaves as they are.
at::Tensor Operand(const Point& at, Inputs& in, at::IntArrayRef shape, int64_t inner) {
  constexpr double kDeviation = 3;  // of integers, which all types hold exactly
  const std::string data = at.Text(kDataAxis);
  const at::Tensor values = in.Randn(shape, at.Dtype(), data == kIntegers ? kDeviation : 1);
  // The check of a result of zeros would find next to no fault.
  if (data == kZeros) values.slice(inner, 1).zero_();
  if (data == kIntegers) values.copy_(values.to(at::kFloat).round_());
  return values;
}

Matmul MakeMatmul(const Point& at, Inputs& in) {
  const int64_t m = at.Int("m");
  const int64_t n = at.Int("n");
  const int64_t k = at.Int("k");
  const Dtype dtype = at.Dtype();
  // oneDNN's linear layer takes the weight as [n, k], as our product and those in fp8 do, and so do CUDA's int8
  // products: with a row-major B, _int_mm is refused from CUDA 13 on.
  const bool transposed = at.Text(kImplAxis) == "onednn" || at.Text(kImplAxis) == "native" || dtype == Dtype::kFp8 ||
                          (dtype == Dtype::kInt8 && in.device().gpu() != nullptr);
  Matmul made{.a = Operand(at, in, {m, k}, 1),
              .b = transposed ? Operand(at, in, {n, k}, 1).t() : Operand(at, in, {k, n}, 0),
              .y = in.Empty({m, n}, ResultType(dtype)),
              .rows = in.SampleRows(m)};
  if (dtype == Dtype::kFp8) {
    made.scale_a = DrawScales(in, ScalesRows(at) ? m : 1, 1);
    made.scale_b = DrawScales(in, 1, ScalesRows(at) ? n : 1);
  }
  return made;
}

// The product of the sampled rows in double precision, a block of columns at a time: the whole of B in double may not
// fit.
at::Tensor ReferenceRows(const Matmul& o) {
  constexpr int64_t kBlock = 256;
  const at::Tensor sampled = o.a.index_select(0, o.rows).to(at::kDouble);
  std::vector<at::Tensor> blocks;
  for (const at::Tensor& columns : o.b.split(kBlock, 1)) blocks.push_back(at::mm(sampled, columns.to(at::kDouble)));
  const at::Tensor product = at::cat(blocks, 1);
  if (!o.scale_a.defined()) return product;
  return product.mul_(o.scale_a.expand({o.a.size(0), 1}).index_select(0, o.rows)).mul_(o.scale_b);
}

// In double precision, a block of rows at a time.
at::Tensor Times(const at::Tensor& matrix, const at::Tensor& vector) {
  constexpr int64_t kBlock = 256;
  std::vector<at::Tensor> blocks;
  for (const at::Tensor& rows : matrix.split(kBlock)) blocks.push_back(at::mv(rows.to(at::kDouble), vector));
  return at::cat(blocks);
}

// A · (B · 1), or with the scales in place of ones.
at::Tensor RowSums(const Matmul& o) {
  if (!o.scale_a.defined()) return Times(o.a, ExactRowSums(o.b));
  const at::Tensor scales = o.scale_b.to(at::kDouble).expand({1, o.b.size(1)})[0].contiguous();
  return Times(o.a, Times(o.b, scales)).mul_(o.scale_a.squeeze(1));
}

workload::Gemm WorkAt(const Point& at) {
  const double m = at.Number("m");
  const double n = at.Number("n");
  const double scales = at.Dtype() != Dtype::kFp8 ? 0 : ScalesRows(at) ? m + n : 2;
  return {m, n, at.Number("k"), at.Dtype(), scales};
}

void Describe(const Point& at, const std::shared_ptr<Matmul>& o, Case& built) {
  if (at.Dtype() != Dtype::kFp8 || !o->y.is_cpu()) return;
  built.cost = WorkAt(at).ForwardCost();
  built.cost->resident_bytes += WorkAt(at).Fp8ConversionBytes();
}

absl::Status Supports(const Point& at, const Device& device) {
  if (at.Dtype() == Dtype::kInt8 && at.Text(kDataAxis) == kIntegers) {
    return absl::UnimplementedError("operands in int8 are integers: data:normal");
  }
  if (at.Dtype() == Dtype::kFp8) {
    const char* const why = ScaledMmRefuses(ScalesAt(at), at.Int("n"), at.Int("k"), device.gpu() != nullptr);
    return why == nullptr ? absl::OkStatus() : absl::UnimplementedError(why);
  }
  if (ScalesRows(at)) return absl::UnimplementedError("only operands in fp8 have scales: dtype:fp8");
  if (device.gpu() != nullptr && at.Dtype() == Dtype::kInt8 &&
      (at.Int("m") <= 16 || at.Int("n") % 8 != 0 || at.Int("k") % 8 != 0)) {
    return absl::UnimplementedError("_int_mm on a GPU needs m above 16, and n and k in multiples of 8");
  }
  return absl::OkStatus();
}

absl::Status GraphSupports(const Point& at, const Device&) {
  if (at.Text(kCacheAxis) == kWarm) return absl::OkStatus();
  return absl::UnimplementedError(
      "each of the hundreds of copies that a cold cache takes would be a graph with memory of its own; "
      "--axis=matmul.cache=warm");
}

const AxisList kMachineSizes = {512, 1024, 2048, 4096};

const Registration kMatmul =
    FamilyOf<Matmul>("matmul", "C[m,n] = A[m,k] · B[k,n]")
        .Dtypes({"fp32", "tf32", "bf16", "fp16", "int8", "fp8", "fp64"}, "fp8: e4m3, the result in bf16")
        .Choice("scales", {"tensor", "row"}, "in fp32, of fp8: one per operand, or one per row of A and column of B",
                "tensor")
        .Choice(kDataAxis, {kNormal, kZeros, kIntegers},
                "of A and B, by which a GPU's power differs; zeros: but for a column of A and a row of B, by which the "
                "result is checked; integers: normal, with a deviation of 3",
                kNormal)
        .Size("m", "rows of A: tokens", "n")
        .Size("n", "columns of B")
        .Size("k", "columns of A", "n")
        .Work(WorkAt)
        .Operands(MakeMatmul)
        .Reference(ReferenceRows)
        .Changing([](const Matmul& o) { return o.a; })
        .RowSums(RowSums)
        .Within([](const Point& at) {
          const Dtype dtype = at.Dtype() == Dtype::kFp8 ? Dtype::kBf16 : at.Dtype();
          return Tolerance{.dtype = dtype, .reduction = at.Number("k")};
        })
        .Details(Describe)
        .Impl("eager",
              [](Matmul& o) {
                if (o.scale_a.defined()) {
                  ScaledMmOut(o.y, o.a, o.b, o.scale_a, o.scale_b);
                } else if (o.y.scalar_type() == at::kInt) {
                  at::_int_mm_out(o.y, o.a, o.b);
                } else {
                  at::mm_out(o.y, o.a, o.b);
                }
              })
        .Impl("onednn", OnCpu([](Matmul& o, const Point&, Inputs&) {
                return [&o, weight = o.b.t()] { o.y = OnednnLinear(o.a, weight); };
              }))
        .Takes({"fp32", "tf32", "bf16", "fp16"},
               "oneDNN's linear layer multiplies floats on processors; impl:eager "
               "takes all else")
        .Impl("native", OnCpu([](Matmul& o, const Point& at, Inputs& in) {
                switch (ProductOf(at.Dtype())) {
                  case kernels::TileProduct::kFp32:
                    return ByTiles<kernels::TileProduct::kFp32>(o, in);
                  case kernels::TileProduct::kInt8:
                    return ByTiles<kernels::TileProduct::kInt8>(o, in);
                  default:
                    return ByTiles<kernels::TileProduct::kBf16>(o, in);
                }
              }))
        .Takes({"fp32", "bf16", "int8"}, "our own product multiplies fp32, bf16 and int8; impl:eager takes all else")
        .When(TilesSupport)
        .Graph()
        .When(GraphSupports)
        .Supports(Supports)
        .Points(Suite::kQuick,
                {{"impl", {"eager"}}, {"dtype", {"fp32", "bf16", "int8"}}, {"n", {256, 512, 1024, 2048}}})
        .Points(Suite::kQuick, {{"impl", {"onednn"}}, {"dtype", {"fp32"}}, {"n", {256, 512, 1024, 2048}}})
        .Points(Suite::kQuick, {{"impl", {"eager"}}, {"dtype", {"fp8"}}, {"n", {2048}}})
        .Points(Suite::kQuick,
                {{"impl", {"eager"}}, {"dtype", {"bf16"}}, {"m", {1, 16, 256}}, {"n", {4096}}, {"k", {4096}}})
        .Points(Suite::kStandard, {{"impl", {"eager", "onednn"}},
                                   {"dtype", {"fp32", "bf16"}},
                                   {"m", {1, 16, 256}},
                                   {"n", {4096, 14336}},
                                   {"k", {4096}}})
        .Points(Suite::kStandard, {{"impl", {"eager"}},
                                   {"dtype", {"fp32", "tf32", "bf16", "fp16", "int8"}},
                                   {"n", {256, 512, 1024, 2048, 4096}}})
        .Points(Suite::kStandard, {{"impl", {"onednn"}}, {"dtype", {"fp32", "bf16"}}, {"n", {1024, 2048, 4096}}})
        .Points(Suite::kStandard,
                {{"impl", {"native"}}, {"dtype", {"fp32", "bf16", "int8"}}, {"n", {512, 1024, 2048, 4096}}})
        .Points(Suite::kStandard, {{"impl", {"eager"}},
                                   {"dtype", {"fp8"}},
                                   {"scales", {"tensor", "row"}},
                                   {"n", {256, 512, 1024, 2048, 4096}}})
        .Points(Suite::kStandard, {{"impl", {"eager"}},
                                   {"dtype", {"fp8"}},
                                   {"scales", {"tensor", "row"}},
                                   {"m", {1, 16, 256}},
                                   {"n", {4096, 14336}},
                                   {"k", {4096}}})
        // Spans launch-bound and larger sizes, launched one by one and as a graph.
        .Points(Suite::kStandard,
                {{"impl", {"eager", "graph"}}, {"dtype", {"bf16"}}, {"n", {256, 512, 1024, 4096}}, {"cache", {kWarm}}})
        .Points(Suite::kFull,
                {{"impl", {"eager"}}, {"dtype", {"fp32", "tf32", "bf16", "fp16", "int8"}}, {"n", {8192, 16384}}})
        .Points(Suite::kFull, {{"impl", {"onednn"}}, {"dtype", {"fp32", "bf16"}}, {"n", {8192, 16384}}})
        .Points(Suite::kFull,
                {{"impl", {"eager"}}, {"dtype", {"fp8"}}, {"scales", {"tensor", "row"}}, {"n", {8192, 16384}}})
        .Points(Suite::kMachineQuick,
                {{"impl", {"eager"}}, {"dtype", {"fp32", "tf32", "bf16", "fp16", "int8", "fp64"}}, {"n", {1024, 2048}}})
        .Points(Suite::kMachineQuick, {{"impl", {"native"}}, {"dtype", {"fp32", "bf16", "int8"}}, {"n", {1024, 2048}}})
        .Points(Suite::kFull,
                {{"impl", {"eager"}}, {"dtype", {"bf16"}}, {kDataAxis, {kZeros, kIntegers}}, {"n", {4096, 8192}}})
        .Points(
            Suite::kMachine,
            {{"impl", {"eager"}}, {"dtype", {"fp32", "tf32", "bf16", "fp16", "int8", "fp64"}}, {"n", kMachineSizes}})
        .Points(Suite::kMachine, {{"impl", {"onednn"}}, {"dtype", {"fp32", "bf16"}}, {"n", kMachineSizes}})
        .Points(Suite::kMachine, {{"impl", {"native"}}, {"dtype", {"fp32", "bf16", "int8"}}, {"n", kMachineSizes}})
        .Growth("n", 3);

}  // namespace
}  // namespace roofbench
