// SPDX-License-Identifier: Apache-2.0
// A linear layer by LLM.int8(), and in bf16 for comparison: why int8 is slower, and above which size it is faster.
//
// Compares one token up to a prompt of 2048 on a 4096 x 4096 projection and the linears of Llama-3-8B (fused QKV, fused
// gate and up, down). Models of billions of parameters have outliers in about 0.1 % of their columns; 1 % exceeds every
// published observation.

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "benchmarks/micro/products/linear_reference.h"
#include "lib/aten/products.h"
#include "lib/kernels/operators/products/gemv.h"
#include "lib/kernels/operators/products/llm_int8.h"
#include "lib/kernels/threading/huge_pages.h"
#include "lib/models/decoding/llm_int8.h"
#include "lib/observe/ranges.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/products.h"

namespace roofbench {
namespace {

using kernels::Bf16;
using models::Int8Stage;

constexpr char kLlmInt8[] = "llm_int8";
// Normal activations are below the first limit, injected outliers between the other two.
constexpr double kMostNormal = 5;
constexpr double kLeastOutlier = 16;
constexpr double kMostOutlier = 32;

enum Phase { kStatistics, kQuantize, kProduct, kDequantize, kOutliers };
const std::vector<std::string> kPhases = {"statistics", "quantize", "product", "dequantize", "outliers"};

struct Linear {
  at::Tensor x;       // bf16 [rows, k]
  at::Tensor weight;  // [n, k] in int8 or bf16
  at::Tensor scale;   // fp32 [n]: the largest magnitude of a row; undefined in bf16
  at::Tensor y;       // bf16 [rows, n]
  at::Tensor rows;    // of y that are compared
  double threshold = 0;

  bool is_int8() const { return scale.defined(); }
  models::LlmInt8Matrix matrix() const { return {weight, scale}; }
  // bool [k]: the columns that are multiplied unquantized.
  at::Tensor Outliers() const {
    if (threshold <= 0) return at::zeros({x.size(1)}, x.options().dtype(at::kBool));
    return x.abs().ge(threshold).any(0);
  }
};

int64_t InjectedOutliers(const Point& at) {
  const double share = std::stod(at.Text("outliers"));
  return share > 0 ? std::max<int64_t>(1, static_cast<int64_t>(share * at.Number("k"))) : 0;
}

at::Tensor Activations(const Point& at, at::Generator& generator) {
  const int64_t rows = at.Int("rows");
  const int64_t k = at.Int("k");
  at::Tensor x = at::randn({rows, k}, generator).clamp_(-kMostNormal, kMostNormal);
  if (const int64_t count = InjectedOutliers(at); count > 0) {
    const at::Tensor columns = at::randperm(k, generator).narrow(0, 0, count);
    const at::Tensor size = at::rand({rows, count}, generator).mul_(kMostOutlier - kLeastOutlier).add_(kLeastOutlier);
    x.index_copy_(1, columns, size.mul_(at::randn({rows, count}, generator).sign()));
  }
  return x.to(at::kBFloat16);
}

Linear MakeLinear(const Point& at, Inputs& in) {
  const int64_t rows = at.Int("rows");
  const int64_t n = at.Int("n");
  const int64_t k = at.Int("k");
  const bool is_int8 = at.Text(kPrecisionAxis) == kLlmInt8;
  Linear made{.x = in.Keep([&](at::Generator& generator) { return Activations(at, generator); }),
              .weight = in.Randn({n, k}, is_int8 ? workload::Dtype::kInt8 : workload::Dtype::kBf16),
              .scale = {},
              .y = in.Empty({rows, n}, workload::Dtype::kBf16),
              .rows = in.SampleRows(rows),
              .threshold = at.Number("outlier_threshold")};
  if (is_int8) {
    made.scale =
        in.Keep([&](at::Generator& generator) { return at::rand({n}, generator).mul_(0.1).add_(0.1).to(at::kFloat); });
  }
  if (at.Text(kImplAxis) == "native") kernels::UseHugePages(made.weight.data_ptr(), made.weight.nbytes());
  return made;
}

// Some rows of x as products use them, in double precision: quantized to whole steps except for the outlier columns.
at::Tensor SeenRows(const Linear& o, const at::Tensor& x, const at::Tensor& outliers) {
  const at::Tensor values = x.to(at::kDouble);
  if (!o.is_int8()) return values;
  constexpr double kLargest = 127;
  const at::Tensor inner = values.masked_fill(outliers, 0);
  const at::Tensor magnitude = values.abs();
  const at::Tensor largest =
      (o.threshold > 0 ? magnitude.masked_fill(magnitude.ge(o.threshold), 0) : magnitude).amax({1}, /*keepdim=*/true);
  // A row of outliers leaves nothing to quantize.
  constexpr double kLeast = 1e-30;
  const at::Tensor steps = (inner * (kLargest / largest.clamp_min(kLeast))).round_();
  return steps.mul_(largest / kLargest).add_(values.masked_fill(outliers.logical_not(), 0));
}

// The weight as products use it.
ExactWeight SeenWeight(const Linear& o) {
  return [&o](int64_t first, int64_t count) {
    at::Tensor block = o.weight.narrow(0, first, count).to(at::kDouble);
    if (o.is_int8()) block.mul_((o.scale.narrow(0, first, count).to(at::kDouble) / 127).unsqueeze(1));
    return block;
  };
}

at::Tensor ReferenceRows(const Linear& o) {
  return ExactProduct(SeenRows(o, o.x.index_select(0, o.rows), o.Outliers()), o.weight.size(0), SeenWeight(o));
}

at::Tensor RowSums(const Linear& o) {
  const auto seen = [&o, outliers = o.Outliers()](const at::Tensor& rows) { return SeenRows(o, rows, outliers); };
  return ExactProductSums(o.x, seen, o.weight.size(0), SeenWeight(o));
}

void Eager(Linear& o, timing::PhaseMarker& marker) {
  if (!o.is_int8()) {
    at::mm_out(o.y, o.x, o.weight.t());
    return;
  }
  o.y = models::LlmInt8Linear(o.x, o.matrix(), o.threshold, [&](Int8Stage stage) {
    if (stage != Int8Stage::kOther) marker.End(static_cast<int>(stage) - static_cast<int>(Int8Stage::kSelect));
  });
}

absl::StatusOr<CaseStep> PrepareEager(Linear& o, const Point&, Inputs&) {
  if (o.is_int8() && !o.x.is_cpu()) {
    const auto columns = o.Outliers().sum().item<int64_t>();
    const int64_t room = models::LlmInt8Room(o.x.size(1));
    if (columns > room) {
      return absl::UnimplementedError(
          absl::StrCat(columns, " columns hold outliers; a GPU, whose host does not wait for ",
                       "their number, has room for ", room, ": a higher threshold has fewer"));
    }
  }
  return CaseStep([&o](timing::PhaseMarker& marker) { Eager(o, marker); });
}

CaseStep PrepareNative(Linear& o, const Point& at, Inputs& in) {
  const int64_t rows = at.Int("rows");
  const int64_t n = at.Int("n");
  const int64_t k = at.Int("k");
  if (!o.is_int8()) {
    return KernelStep(
        kernels::Gemv<kernels::Bf16Weight, Bf16, Bf16>{
            {Elements<Bf16>(o.weight), n, k}, Elements<Bf16>(o.x), Elements<Bf16>(o.y), rows},
        in.device());
  }
  const auto activations = std::make_shared<kernels::Int8Activations>(rows, k);
  const kernels::LlmInt8Product<Bf16> product{.weight = {Elements<int8_t>(o.weight), Elements<float>(o.scale), n, k},
                                              .activations = activations.get(),
                                              .y = Elements<Bf16>(o.y)};
  return [=, x = Elements<Bf16>(o.x), threshold = static_cast<float>(o.threshold),
          threads = in.device().threads()](timing::PhaseMarker& marker) {
    const kernels::ThreadPool pool(threads);
    const auto stage = [&](const char* name, Phase phase, const auto& work) {
      {
        const observe::Range range(name);
        work();
      }
      marker.End(phase);
    };
    stage("roofbench::llm_int8 statistics", kStatistics, [&] { activations->Select(x, rows, k, threshold, pool); });
    stage("roofbench::llm_int8 quantize", kQuantize, [&] { activations->Quantize(x, pool); });
    stage("roofbench::llm_int8 product", kProduct, [&] { Run(product, pool); });
  };
}

auto PrepareOnednn(Linear& o, const Point& at, Inputs&) {
  return [&o, packed = OnednnPack(o.weight, at.Int("rows"))] { o.y = OnednnLinear(o.x, packed); };
}

workload::Cost CostOf(const Point& at, double outlier_columns) {
  const double m = at.Number("rows");
  const double n = at.Number("n");
  const double k = at.Number("k");
  if (at.Text(kPrecisionAxis) != kLlmInt8) {
    workload::Cost cost = workload::Gemm{m, n, k, workload::Dtype::kBf16}.ForwardCost();
    // This implementation keeps the weight twice.
    if (at.Text(kImplAxis) == "onednn") cost.resident_bytes += n * k * ElementBytes(workload::Dtype::kBf16);
    return cost;
  }
  const workload::LlmInt8Linear shape{.m = m, .n = n, .k = k, .outlier_columns = outlier_columns};
  return at.Text(kImplAxis) == "native" ? shape.FusedCost() : shape.StagedCost();
}

void Describe(const Point& at, const std::shared_ptr<Linear>& o, Case& built) {
  if (!o->is_int8()) return;
  const auto columns = o->Outliers().sum().item<double>();
  built.cost = CostOf(at, columns);
  built.AddFigure("outlier_columns", columns);
  // Our kernel dequantizes and adds the outliers while it multiplies.
  const bool is_fused = at.Text(kImplAxis) == "native";
  built.phases.assign(kPhases.begin(), is_fused ? kPhases.begin() + kDequantize : kPhases.end());
}

// A GEMV reads the weight from a cache for all vectors but the first.
absl::Status NativeSupports(const Point& at, const Device&) {
  if (at.Text(kPrecisionAxis) == kLlmInt8 || at.Int("rows") <= 64) return absl::OkStatus();
  return absl::UnimplementedError("our bf16 product is for up to 64 rows; impl:onednn takes more");
}

absl::Status Supports(const Point& at, const Device& device) {
  const bool is_int8 = at.Text(kPrecisionAxis) == kLlmInt8;
  if (!is_int8 && at.Text("outlier_threshold") != "6") {
    return absl::UnimplementedError("precision:bf16 has no threshold, as nothing is quantized");
  }
  if (is_int8 && device.gpu() != nullptr && (at.Int("n") % 8 != 0 || at.Int("k") % 8 != 0)) {
    return absl::UnimplementedError("LibTorch's int8 product on a GPU needs n and k in multiples of 8");
  }
  return absl::OkStatus();
}

GridAxes Grid(const AxisList& impls, const char* precision, const AxisList& rows, const AxisList& n, const AxisList& k,
              const AxisList& outliers = {"0"}) {
  return {{"impl", impls}, {"precision", {precision}}, {"rows", rows}, {"n", n}, {"k", k}, {"outliers", outliers}};
}

const AxisList kRows = {1, 4, 8, 16, 64, 512, 2048};
const AxisList kFewRows = {1, 4, 8, 16, 64};
const AxisList kShares = {"0", "0.001", "0.01"};

const Registration kLlmInt8Linear =
    FamilyOf<Linear>("llm_int8_linear", "y[rows,n] = x[rows,k] · W[n,k]ᵀ by LLM.int8(), and in bf16 for comparison")
        .Precisions({kLlmInt8, "bf16"})
        .Size("rows", "of x: tokens")
        .Size("n", "rows of W: outputs")
        .Size("k", "columns of W", "n")
        .Number("outlier_threshold", "magnitude from which on an activation is an outlier; 0: none is", "6")
        .Choice("outliers", kShares, "share of the columns of x that hold numbers of 16 to 32 among normal ones", "0")
        .Work([](const Point& at) {
          const double threshold = at.Number("outlier_threshold");
          // With other thresholds only the built case knows the number.
          const bool takes_injected = threshold > 0 && threshold <= kLeastOutlier;
          return CostOf(at, takes_injected ? static_cast<double>(InjectedOutliers(at)) : 0);
        })
        .Operands(MakeLinear)
        .Reference(ReferenceRows)
        .RowSums(RowSums)
        // With outliers two results are rounded, one after the other.
        .Within([](const Point& at) {
          return Tolerance{.dtype = workload::Dtype::kBf16, .reduction = at.Number("k"), .roundings = 2};
        })
        .Details(Describe)
        .Impl("eager", Prepared(PrepareEager))
        .Impl("native", OnCpu(PrepareNative))
        .When(NativeSupports)
        .Impl("onednn", OnCpu(PrepareOnednn))
        .Takes({"bf16"}, "LibTorch's oneDNN has no product of activations and weights in int8")
        .Supports(Supports)
        .Points(Suite::kQuick, Grid({"eager", "native"}, kLlmInt8, {1, 64}, {2048}, {"n"}, {"0.01"}))
        .Points(Suite::kQuick, Grid({"eager", "native", "onednn"}, "bf16", {1}, {2048}, {"n"}))
        .Points(Suite::kQuick, Grid({"onednn"}, "bf16", {64}, {2048}, {"n"}))
        .Points(Suite::kStandard, Grid({"eager", "native"}, kLlmInt8, kRows, {4096}, {"n"}, {"0", "0.01"}))
        .Points(Suite::kStandard, Grid({"eager", "onednn"}, "bf16", kRows, {4096}, {"n"}))
        .Points(Suite::kStandard, Grid({"native"}, "bf16", kFewRows, {4096}, {"n"}))
        .Points(Suite::kFull, Grid({"eager", "native"}, kLlmInt8, kRows, {4096, 6144, 28672}, {4096}, kShares))
        .Points(Suite::kFull, Grid({"eager", "native"}, kLlmInt8, kRows, {4096}, {14336}, kShares))
        .Points(Suite::kFull, Grid({"eager", "onednn"}, "bf16", kRows, {6144, 28672}, {4096}))
        .Points(Suite::kFull, Grid({"eager", "onednn"}, "bf16", kRows, {4096}, {14336}))
        .Points(Suite::kFull, Grid({"native"}, "bf16", kFewRows, {6144, 28672}, {4096}))
        .Points(Suite::kFull, Grid({"native"}, "bf16", kFewRows, {4096}, {14336}))
        .Growth("n", 2);

}  // namespace
}  // namespace roofbench
