// SPDX-License-Identifier: Apache-2.0
// Linear(d → 14336), LayerNorm, Linear(14336 → d), LayerNorm on one row, as gpt_fast publishes it under this name, and
// with the GELU that the name promises (after the first norm). d from 1024 (59 MB of bf16 weights) to 16384 (940 MB).
//
// gpt_fast reports a "utilization" that multiplies FLOPs by time. Here `flop_util` and `mem_util` have their usual
// meaning; with one row the bytes of the weights are the bound, with hundreds of rows arithmetic is.

#include <ATen/ops/add.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>

#include <algorithm>
#include <cmath>

#include "lib/aten/products.h"
#include "lib/kernels/operators/products/gemv.h"
#include "lib/kernels/operators/rows/norm.h"
#include "lib/kernels/threading/huge_pages.h"
#include "lib/suite/family_of.h"
#include "lib/workload/models/mlp.h"

namespace roofbench {
namespace {

using kernels::Bf16;

constexpr double kEps = 1e-5;

workload::MlpLayerNorm WorkAt(const Point& at) {
  return {.batch = at.Number("batch"),
          .width = at.Number("d"),
          .hidden = at.Number("hidden"),
          .gelu = at.Text("gelu") == "yes"};
}

// Linear, then LayerNorm; all in bf16.
struct Block {
  at::Tensor weight, bias, norm_weight, norm_bias;
  // Prepared by implementations: oneDNN's weight; our product, and our norm's parameters in fp32.
  at::Tensor packed = {}, product = {}, fp32_norm_weight = {}, fp32_norm_bias = {};
};

struct Blocks {
  at::Tensor x, y;
  Block up, down;
  bool gelu;
};

Block MakeBlock(Inputs& in, int64_t from, int64_t to) {
  const workload::Dtype bf16 = workload::Dtype::kBf16;
  const double scale = 1 / std::sqrt(static_cast<double>(from));
  return {.weight = in.Randn({to, from}, bf16, scale),
          .bias = in.Randn({to}, bf16, scale),
          .norm_weight = in.Randn({to}, bf16),
          .norm_bias = in.Randn({to}, bf16)};
}

Blocks MakeBlocks(const Point& at, Inputs& in) {
  const std::vector<int64_t> shape = {at.Int("batch"), at.Int("d")};
  return {.x = in.Randn(shape, at.Dtype()),
          .y = in.Empty(shape, at.Dtype()),
          .up = MakeBlock(in, at.Int("d"), at.Int("hidden")),
          .down = MakeBlock(in, at.Int("hidden"), at.Int("d")),
          .gelu = at.Text("gelu") == "yes"};
}

// The whole result, block by block: `run(x, block)` returns a block's result.
template <typename RunBlock>
at::Tensor RunBlocks(const Blocks& o, const at::Tensor& x, RunBlock run) {
  at::Tensor h = run(x, o.up);
  if (o.gelu) h = at::gelu(h);
  return run(h, o.down);
}

at::Tensor Normalized(const at::Tensor& x, const Block& block) {
  return at::layer_norm(x, {x.size(1)}, block.norm_weight, block.norm_bias, kEps);
}

// The norm needs whole rows of the product, so that no element can be left out; the matrices are converted to
// double precision a block of rows at a time.
at::Tensor ExactBlock(const at::Tensor& x, const Block& block) {
  constexpr int64_t kRows = 1024;
  at::Tensor y = block.bias.to(at::kDouble).repeat({x.size(0), 1});
  int64_t row = 0;
  for (const at::Tensor& rows : block.weight.split(kRows)) {
    y.narrow(1, row, rows.size(0)).add_(at::linear(x, rows.to(at::kDouble)));
    row += rows.size(0);
  }
  return at::layer_norm(y, {y.size(1)}, block.norm_weight.to(at::kDouble), block.norm_bias.to(at::kDouble), kEps);
}

at::Tensor EagerBlock(const at::Tensor& x, const Block& block) {
  return Normalized(at::linear(x, block.weight, block.bias), block);
}

at::Tensor OnednnBlock(const at::Tensor& x, const Block& block) {
  return Normalized(OnednnLinear(x, block.packed).add_(block.bias), block);
}

at::Tensor NativeBlock(const at::Tensor& x, const Block& block, const kernels::ThreadPool& pool) {
  const int64_t n = block.weight.size(0);
  kernels::Run(kernels::Gemv<kernels::Bf16Weight, Bf16, Bf16>{.weight = {Elements<Bf16>(block.weight), n, x.size(1)},
                                                              .x = Elements<Bf16>(x),
                                                              .y = Elements<Bf16>(block.product),
                                                              .m = x.size(0)},
               pool);
  at::Tensor h = at::add(block.product, block.bias);
  kernels::Run(kernels::LayerNorm<Bf16>{.x = Elements<Bf16>(h),
                                        .y = Elements<Bf16>(h),
                                        .weight = Elements<float>(block.fp32_norm_weight),
                                        .bias = Elements<float>(block.fp32_norm_bias),
                                        .rows = x.size(0),
                                        .cols = n,
                                        .eps = static_cast<float>(kEps)},
               pool);
  return h;
}

auto PrepareOnednn(Blocks& o, const Point&, Inputs&) {
  for (Block* const block : {&o.up, &o.down}) block->packed = OnednnPack(block->weight, o.x.size(0));
  return [&o] { o.y = RunBlocks(o, o.x, OnednnBlock); };
}

auto PrepareNative(Blocks& o, const Point& at, Inputs& in) {
  for (Block* const block : {&o.up, &o.down}) {
    kernels::UseHugePages(block->weight.data_ptr(), block->weight.nbytes());
    block->product = in.Empty({o.x.size(0), block->weight.size(0)}, at.Dtype());
    block->fp32_norm_weight = in.Keep(block->norm_weight.to(at::kFloat));
    block->fp32_norm_bias = in.Keep(block->norm_bias.to(at::kFloat));
  }
  return [&o, threads = in.device().threads()] {
    const kernels::ThreadPool pool(threads);
    o.y = RunBlocks(o, o.x, [&](const at::Tensor& x, const Block& block) { return NativeBlock(x, block, pool); });
  };
}

GridAxes Grid(AxisList gelu, AxisList batch, AxisList d, AxisList impl = {"eager", "onednn", "native"}) {
  return {{"impl", std::move(impl)}, {"gelu", std::move(gelu)}, {"batch", std::move(batch)}, {"d", std::move(d)}};
}

const Registration kMlpLayerNormGelu =
    FamilyOf<Blocks>("mlp_layer_norm_gelu", "Linear(d -> 14336), LayerNorm, Linear(14336 -> d), LayerNorm, in bf16")
        .Dtypes({"bf16"}, "", "bf16")
        .Choice("gelu", {"no", "yes"}, "no: as gpt_fast publishes it; yes: a GELU after the first norm", "no")
        .Size("batch", "rows; gpt_fast has one", 1)
        .Size("d")
        .Size("hidden", "", 14336)
        .Work(WorkAt)
        .Operands(MakeBlocks)
        .Reference([](const Blocks& o) { return RunBlocks(o, o.x.to(at::kDouble), ExactBlock); })
        // Rounded to bf16 after each product, bias, norm and activation.
        .Within([](const Point& at) {
          return Tolerance{.dtype = at.Dtype(),
                           .reduction = std::max(at.Number("d"), at.Number("hidden")),
                           .roundings = 7,
                           .amplification = 2};
        })
        .Impl("eager", [](Blocks& o) { o.y = RunBlocks(o, o.x, EagerBlock); })
        .Impl("onednn", OnCpu(PrepareOnednn))
        .Impl("compiled",
              Compiled([](Blocks& o) { return o.gelu ? "mlp_layer_norm_gelu" : "mlp_layer_norm"; },
                       [](Blocks& o) {
                         return std::vector{
                             o.x,           o.up.weight, o.up.bias,          o.up.norm_weight, o.up.norm_bias,
                             o.down.weight, o.down.bias, o.down.norm_weight, o.down.norm_bias};
                       }))
        .Impl("native", OnCpu(PrepareNative))
        .When([](const Point& at, const Device&) {
          return at.Int("batch") <= 8 ? absl::OkStatus()
                                      : absl::UnimplementedError("the native product is for up to 8 rows");
        })
        .Points(Suite::kQuick, Grid({"no"}, {1}, {4096}, {"eager", "native"}))
        .Points(Suite::kStandard, Grid({"no"}, {1}, {1024, 4096, 8192}))
        .Points(Suite::kStandard, Grid({"yes"}, {1}, {1024, 4096}))
        .Points(Suite::kStandard, Grid({"no", "yes"}, {8}, {1024, 4096}))
        .Points(Suite::kStandard, Grid({"yes"}, {256}, {1024, 4096}, {"eager", "onednn"}))
        .Points(Suite::kStandard, Grid({"no"}, {1}, {1024, 4096, 8192}, {"compiled"}))
        .Points(Suite::kStandard, Grid({"yes"}, {1}, {4096}, {"compiled"}))
        .Points(Suite::kFull, Grid({"no", "yes"}, {1}, {16384}, {"eager", "onednn", "compiled", "native"}))
        .Growth("d", 1);

}  // namespace
}  // namespace roofbench
