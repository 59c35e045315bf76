// Linear(d → 14336), LayerNorm, Linear(14336 → d), LayerNorm on one row, as gpt_fast publishes it under this name, and
// with the GELU that the name promises (after the first norm). d from 1024 (59 MB of bf16 weights) to 16384 (940 MB).
//
// gpt_fast reports a "utilisation" that multiplies FLOPs by time. Here `flop_util` and `mem_util` are what they say;
// with one row the bytes of the weights bind, with hundreds of rows arithmetic does.

#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/native_layer_norm.h>

#include <cmath>
#include <memory>
#include <optional>

#include "benchmarks/implementations.h"
#include "benchmarks/native.h"
#include "lib/harness/compiled.h"
#include "lib/harness/device.h"
#include "lib/harness/family.h"
#include "lib/harness/onednn.h"
#include "lib/kernels/gemv.h"
#include "lib/kernels/huge_pages.h"
#include "lib/kernels/norm.h"
#include "lib/kernels/team.h"
#include "lib/workload/mlp_layer_norm.h"

namespace roofbench {
namespace {

using kernels::Bf16;

constexpr int64_t kHidden = 14336;
constexpr double kEps = 1e-5;

workload::MlpLayerNorm WorkAt(const Point& at) {
  return {.batch = at.Number("batch"),
          .width = at.Number("d"),
          .hidden = at.Number("hidden"),
          .gelu = at.Text("gelu") == "yes"};
}

// Linear, then LayerNorm; all in bf16.
struct Block {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor norm_weight;
  at::Tensor norm_bias;
};

// Its result for rows x.
using BlockStep = std::function<at::Tensor(const at::Tensor& x)>;

at::Tensor Normalised(const Block& block, const at::Tensor& x) {
  return at::layer_norm(x, {x.size(1)}, block.norm_weight, block.norm_bias, kEps);
}

Block MakeBlock(Inputs& in, int64_t from, int64_t to) {
  const workload::Dtype bf16 = workload::Dtype::kBf16;
  const double scale = 1 / std::sqrt(static_cast<double>(from));
  Block block{.weight = in.Randn({to, from}, bf16, scale),
              .bias = in.Randn({to}, bf16, scale),
              .norm_weight = in.Randn({to}, bf16),
              .norm_bias = in.Randn({to}, bf16)};
  return block;
}

// The first layer's product is a whole row of results that the norm needs, so all of them are computed; the matrices go
// through double precision a block of rows at a time.
at::Tensor ExactLinear(const at::Tensor& x, const Block& block) {
  constexpr int64_t kRows = 1024;
  at::Tensor y = block.bias.to(at::kDouble).repeat({x.size(0), 1});
  for (int64_t row = 0; row < block.weight.size(0); row += kRows) {
    const int64_t rows = std::min(kRows, block.weight.size(0) - row);
    y.narrow(1, row, rows).add_(at::linear(x, block.weight.narrow(0, row, rows).to(at::kDouble)));
  }
  return y;
}

at::Tensor ExactBlock(const at::Tensor& x, const Block& block) {
  return at::layer_norm(ExactLinear(x, block), {block.weight.size(0)}, block.norm_weight.to(at::kDouble),
                        block.norm_bias.to(at::kDouble), kEps);
}

BlockStep EagerBlock(const Block& block) {
  return [=](const at::Tensor& x) { return Normalised(block, at::linear(x, block.weight, block.bias)); };
}

BlockStep OnednnBlock(const Block& block, int64_t batch) {
  // Without the plain weight, which would else stay in memory.
  Block rest = block;
  rest.weight = OnednnPack(block.weight, batch);
  return [=](const at::Tensor& x) { return Normalised(rest, OnednnLinear(x, rest.weight).add_(rest.bias)); };
}

BlockStep NativeBlock(const Block& block, int64_t batch, Inputs& in) {
  kernels::UseHugePages(block.weight.data_ptr(), block.weight.nbytes());
  const int64_t n = block.weight.size(0);
  const at::Tensor y = in.Empty({batch, n}, workload::Dtype::kBf16);
  // Our norm takes its parameters in fp32.
  const at::Tensor norm_weight = in.Keep(block.norm_weight.to(at::kFloat));
  const at::Tensor norm_bias = in.Keep(block.norm_bias.to(at::kFloat));
  const auto team = std::make_shared<kernels::OpenMpTeam>(in.device().threads());
  return [=](const at::Tensor& x) {
    kernels::Run(kernels::Gemv<kernels::Bf16Weight, Bf16, Bf16>{.weight = {Elements<Bf16>(block.weight), n, x.size(1)},
                                                                .x = Elements<Bf16>(x),
                                                                .y = Elements<Bf16>(y),
                                                                .m = batch},
                 *team);
    at::Tensor h = at::add(y, block.bias);
    kernels::Run(kernels::LayerNorm<Bf16>{.x = Elements<Bf16>(h),
                                          .y = Elements<Bf16>(h),
                                          .weight = Elements<float>(norm_weight),
                                          .bias = Elements<float>(norm_bias),
                                          .rows = batch,
                                          .cols = n,
                                          .eps = static_cast<float>(kEps)},
                 *team);
    return h;
  };
}

BlockStep MakeBlockStep(const std::string& impl, const Block& block, int64_t batch, Inputs& in) {
  if (impl == "onednn") return OnednnBlock(block, batch);
  if (impl == "native") return NativeBlock(block, batch, in);
  return EagerBlock(block);
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const int64_t batch = at.Int("batch");
  const int64_t d = at.Int("d");
  const int64_t hidden = at.Int("hidden");
  const bool gelu = at.Text("gelu") == "yes";
  const std::string& impl = at.Text("impl");
  const at::Tensor x = in.Randn({batch, d}, workload::Dtype::kBf16);
  const Block up = MakeBlock(in, d, hidden);
  const Block down = MakeBlock(in, hidden, d);
  const auto y = std::make_shared<at::Tensor>(in.Empty({batch, d}, workload::Dtype::kBf16));
  CaseStep step;
  if (impl == "compiled") {
    const std::vector<at::Tensor> tensors = {x,           up.weight, up.bias,          up.norm_weight, up.norm_bias,
                                             down.weight, down.bias, down.norm_weight, down.norm_bias};
    const auto compiled = Compile(gelu ? "mlp_layer_norm_gelu" : "mlp_layer_norm", tensors, in.device());
    if (!compiled.ok()) return compiled.status();
    step = [=, operation = *compiled] { *y = operation(tensors); };
  } else {
    step = [=, up_step = MakeBlockStep(impl, up, batch, in), down_step = MakeBlockStep(impl, down, batch, in)] {
      at::Tensor h = up_step(x);
      if (gelu) h = at::gelu(h);
      *y = down_step(h);
    };
  }
  return Case{.step = step,
              .result = [=] { return std::vector{*y}; },
              .reference =
                  [=] {
                    at::Tensor h = ExactBlock(x.to(at::kDouble), up);
                    if (gelu) h = at::gelu(h);
                    return std::vector{ExactBlock(h, down)};
                  },
              // Rounded to bf16 after each product, bias, norm and activation.
              .tolerance = {.dtype = workload::Dtype::kBf16,
                            .reduction = static_cast<double>(std::max(d, hidden)),
                            .roundings = 7,
                            .amplification = 2},
              .parameters = WorkAt(at).Parameters()};
}

absl::Status Supports(const Point& at, const Device& device) {
  if (at.Text("impl") == "native" && at.Int("batch") > 8) {
    return absl::UnimplementedError("the native product is for up to 8 rows");
  }
  return ImplementationSupports(at, device);
}

GridAxes Points(std::vector<std::string> gelu, std::vector<std::string> batch, std::vector<std::string> d,
                std::vector<std::string> impl = {"eager", "onednn", "native"}) {
  return {{"impl", std::move(impl)}, {"gelu", std::move(gelu)}, {"batch", std::move(batch)}, {"d", std::move(d)}};
}

const Registration kMlpLayerNormGelu(
    Family("mlp_layer_norm_gelu", "Linear(d -> 14336), LayerNorm, Linear(14336 -> d), LayerNorm, in bf16")
        .Axis({.name = "impl",
               .choices = {"eager", "onednn", "compiled", "native"},
               .doc = "eager: LibTorch; onednn: weights prepacked by oneDNN; compiled: by Inductor; native: our "
                      "products and norms"})
        .Axis({.name = "dtype", .choices = {"bf16"}, .default_value = "bf16"})
        .Axis({.name = "gelu",
               .choices = {"no", "yes"},
               .default_value = "no",
               .doc = "no: as gpt_fast publishes it; yes: a GELU after the first norm"})
        .Axis({.name = "batch", .default_value = "1", .doc = "rows; gpt_fast has one"})
        .Axis({.name = "d"})
        .Axis({.name = "hidden", .default_value = std::to_string(kHidden)})
        .Grid(Suite::kQuick, Points({"no"}, {"1"}, {"4096"}, {"eager", "native"}))
        .Grid(Suite::kStandard, Points({"no"}, {"1"}, {"1024", "4096", "8192"}))
        .Grid(Suite::kStandard, Points({"yes"}, {"1"}, {"1024", "4096"}))
        .Grid(Suite::kStandard, Points({"no", "yes"}, {"8"}, {"1024", "4096"}))
        .Grid(Suite::kStandard, Points({"yes"}, {"256"}, {"1024", "4096"}, {"eager", "onednn"}))
        .Grid(Suite::kStandard, Points({"no", "yes"}, {"1"}, {"4096"}, {"compiled"}))
        .Grid(Suite::kFull, Points({"no", "yes"}, {"1"}, {"16384"}))
        .ExpectLaw("d", 1)
        .Supports(Supports)
        .Cost([](const Point& at) { return WorkAt(at).ForwardCost(); })
        .Build(Build));

}  // namespace
}  // namespace roofbench
