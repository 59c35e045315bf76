// Normalised rows: every element is read and written once, so memory bandwidth is the roof.
//
// 4096 rows (the tokens of a prompt), as gpt-fast's experiment has them. 1024 columns are 8 MiB a tensor in bf16, and
// fit a last-level cache; 16384 (128 MiB) do not. The rotation over cold copies makes all of them come from memory.

#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/rms_norm.h>

#include <memory>

#include "benchmarks/native.h"
#include "lib/harness/compiled.h"
#include "lib/harness/family.h"
#include "lib/kernels/norm.h"
#include "lib/workload/norm.h"

namespace roofbench {
namespace {

using workload::Dtype;
using workload::NormKind;

constexpr float kLayerEps = 1e-5F;
constexpr float kRmsEps = 1e-6F;

workload::Norm WorkAt(NormKind kind, const Point& at) {
  return {.kind = kind, .rows = at.Number("rows"), .cols = at.Number("d"), .dtype = at.Dtype()};
}

// What a case is made of; `rows` are the sampled ones, which are compared.
struct Operands {
  at::Tensor x;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor rows;
};

Operands MakeOperands(const Point& at, Inputs& in) {
  const int64_t d = at.Int("d");
  return {.x = in.Randn({at.Int("rows"), d}, at.Dtype()),
          .weight = in.Randn({d}),
          .bias = in.Randn({d}),
          .rows = in.SampleRows(at.Int("rows"))};
}

at::Tensor Normalised(NormKind kind, const at::Tensor& x, const Operands& operands) {
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor weight = operands.weight.to(type);
  if (kind == NormKind::kRms) return at::rms_norm(x, {x.size(1)}, weight, kRmsEps);
  return std::get<0>(at::native_layer_norm(x, {x.size(1)}, weight, operands.bias.to(type), kLayerEps));
}

template <typename T>
CaseStep Native(NormKind kind, const Operands& operands, const at::Tensor& y, const Device& device) {
  const int64_t rows = y.size(0);
  const int64_t cols = y.size(1);
  if (kind == NormKind::kRms) {
    return NativeStep(kernels::RmsNorm<T>{.x = Elements<T>(operands.x),
                                          .y = Elements<T>(y),
                                          .weight = Elements<float>(operands.weight),
                                          .rows = rows,
                                          .cols = cols,
                                          .eps = kRmsEps},
                      device);
  }
  return NativeStep(kernels::LayerNorm<T>{.x = Elements<T>(operands.x),
                                          .y = Elements<T>(y),
                                          .weight = Elements<float>(operands.weight),
                                          .bias = Elements<float>(operands.bias),
                                          .rows = rows,
                                          .cols = cols,
                                          .eps = kLayerEps},
                    device);
}

absl::StatusOr<Case> Build(NormKind kind, const Point& at, Inputs& in) {
  const Operands operands = MakeOperands(at, in);
  const auto y = std::make_shared<at::Tensor>(in.Empty({at.Int("rows"), at.Int("d")}, at.Dtype()));
  Case built{
      .result = [=] { return std::vector{y->index_select(0, operands.rows)}; },
      .reference =
          [=] {
            return std::vector{Normalised(kind, operands.x.index_select(0, operands.rows).to(at::kDouble), operands)};
          },
      .tolerance = {.dtype = at.Dtype(), .reduction = at.Number("d")}};
  if (at.Text("impl") == "compiled") {
    std::vector<at::Tensor> tensors = {operands.x, operands.weight};
    if (kind == NormKind::kLayer) tensors.push_back(operands.bias);
    const auto compiled = Compile(kind == NormKind::kLayer ? "layer_norm" : "rms_norm", tensors, in.device());
    if (!compiled.ok()) return compiled.status();
    built.step = [=, operation = *compiled] { *y = operation(tensors); };
  } else if (at.Text("impl") == "native") {
    const CaseStep native = WithElement(
        at.Dtype(), [&](auto element) { return Native<decltype(element)>(kind, operands, *y, in.device()); });
    // The step owns what it points into.
    built.step = [=](timing::PhaseMarker& marker) {
      native(marker);
      (void)operands;
      (void)y;
    };
  } else {
    // ATen's norms allocate their result: there is no form with one that is there already.
    built.step = [=] { *y = Normalised(kind, operands.x, operands); };
  }
  return built;
}

Family Norm(NormKind kind, std::string name, std::string doc) {
  return Family(std::move(name), std::move(doc))
      .Axis({.name = "impl",
             .choices = {"eager", "compiled", "native"},
             .doc = "eager: LibTorch; compiled: by its Inductor; native: our own kernel"})
      .Axis({.name = "dtype", .choices = {"fp32", "bf16"}, .doc = "of x and y; weight and bias are fp32"})
      .Axis({.name = "rows", .default_value = "4096"})
      .Axis({.name = "d", .doc = "length of a row"})
      .Grid(Suite::kQuick, {{"impl", {"eager", "native"}}, {"dtype", {"bf16"}}, {"d", {"4096", "8192"}}})
      .Grid(Suite::kStandard,
            {{"impl", {"eager", "native"}}, {"dtype", {"fp32", "bf16"}}, {"d", {"1024", "4096", "8192", "16384"}}})
      .Grid(Suite::kStandard, {{"impl", {"compiled"}}, {"dtype", {"bf16"}}, {"d", {"4096", "8192"}}})
      .Supports(NativeSupports)
      .Cost([kind](const Point& at) { return WorkAt(kind, at).ForwardCost(); })
      .Build([kind](const Point& at, Inputs& in) { return Build(kind, at, in); });
}

const Registration kLayerNorm(Norm(NormKind::kLayer, "layer_norm",
                                   "y = (x - mean) / sqrt(var + eps) · weight + bias, row by row"));
const Registration kRmsNorm(Norm(NormKind::kRms, "rms_norm", "y = x / sqrt(mean square + eps) · weight, row by row"));

}  // namespace
}  // namespace roofbench
