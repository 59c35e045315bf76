// SPDX-License-Identifier: Apache-2.0
// The lecture's multi-layer perceptron: layers x (Linear d -> d, GELU), forward and backward, swept one axis at a time.
//
// The base point is d=256, 4 layers, batch 256, 2 steps; each of the four is scaled by 1 to 5, and time should grow
// linearly with it; for the width, between d (weights read once) and d² (arithmetic). Small points are bound by
// overhead.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/macro/parallel.h"
#include "lib/aten/precision_scopes.h"
#include "lib/models/training/transformer_model.h"
#include "lib/observe/ranges.h"
#include "lib/suite/family_of.h"
#include "lib/workload/models/mlp.h"

namespace roofbench {
namespace {

enum Phase { kForwardPhase, kBackwardPhase };

struct Layer {
  at::Tensor weight;
  at::Tensor bias;
};

// Computes the output of a layer.
using RunLayer = at::Tensor (*)(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
at::Tensor EagerLayer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::gelu(at::linear(x, weight, bias));
}

// The parameters, and the results of the last step.
struct Network {
  std::vector<Layer> layers = {};
  at::Tensor input;
  at::Tensor upstream;  // gradient of the loss by the output: the loss is the mean of output · upstream
  bool autocast = false;
  int64_t steps = 1;
  at::Tensor output = {};
  models::LayerProducts::Counts products = {};
  std::shared_ptr<models::ParallelRun> shared = {};  // instead of layers, where ranks share the step

  at::Tensor Forward(at::Tensor x, RunLayer run = EagerLayer) const {
    for (const Layer& layer : layers) x = run(x, layer.weight, layer.bias);
    return x;
  }

  void ForgetGradients() {
    for (Layer& layer : layers) {
      layer.weight.mutable_grad().reset();
      layer.bias.mutable_grad().reset();
    }
  }

  void Step(RunLayer run, timing::PhaseMarker& marker) {
    if (shared != nullptr) return StepParallel(*shared, marker);
    const models::LayerProducts::Counter counter(products);
    for (int64_t i = 0; i < steps; ++i) {
      observe::Range range(observe::kZeroGradRange);
      ForgetGradients();
      range.Next("forward");
      {
        const Autocast guard(autocast, input.device().type());
        output = Forward(input, run);
      }
      marker.End(kForwardPhase);
      range.Next("backward");
      output.backward(upstream.to(output.scalar_type()));
      marker.End(kBackwardPhase);
    }
  }

  // The output and the gradients of the first and the last layer, which between them depend on every other one.
  std::vector<at::Tensor> Result() const {
    if (shared != nullptr) return shared->Result();
    return {output.detach(), layers.front().weight.grad(), layers.back().weight.grad(), layers.back().bias.grad()};
  }

  // The same of one step on the same weights in double precision.
  std::vector<at::Tensor> Reference() const {
    if (shared != nullptr) return shared->Reference();
    Network exact{.input = input.to(at::kDouble), .upstream = upstream.to(at::kDouble)};
    for (const Layer& layer : layers) {
      exact.layers.push_back({layer.weight.detach().to(at::kDouble).requires_grad_(true),
                              layer.bias.detach().to(at::kDouble).requires_grad_(true)});
    }
    exact.output = exact.Forward(exact.input);
    exact.output.backward(exact.upstream);
    return exact.Result();
  }
};

// Forward and backward as Inductor compiles them: the inputs of backward are the outputs of forward after the first,
// and the gradient of the output.
struct CompiledNetwork {
  CompiledOperation forward;
  CompiledOperation backward;
  std::vector<at::Tensor> operands;  // the input, and each layer's weight and bias, which share the network's memory

  void Step(Network& network, timing::PhaseMarker& marker) const {
    const at::NoGradGuard no_grad;  // both passes are compiled: autograd must not record them
    for (int64_t i = 0; i < network.steps; ++i) {
      observe::Range range(observe::kZeroGradRange);
      network.ForgetGradients();
      range.Next("forward");
      std::vector<at::Tensor> kept = forward.run(operands);
      network.output = kept.front();
      marker.End(kForwardPhase);
      range.Next("backward");
      kept.erase(kept.begin());
      kept.push_back(network.upstream.to(network.output.scalar_type()));
      const std::vector<at::Tensor> gradients = backward.run(kept);
      for (std::size_t layer = 0; layer < network.layers.size(); ++layer) {
        network.layers[layer].weight.mutable_grad() = gradients.at(2 * layer);
        network.layers[layer].bias.mutable_grad() = gradients.at(2 * layer + 1);
      }
      marker.End(kBackwardPhase);
    }
  }
};

absl::StatusOr<CaseStep> PrepareCompiled(Network& network, const Point& /*at*/, Inputs& in) {
  CompiledNetwork compiled;
  compiled.operands = {network.input};
  for (const Layer& layer : network.layers) {
    compiled.operands.push_back(layer.weight.detach());
    compiled.operands.push_back(layer.bias.detach());
  }
  const std::string name = network.autocast ? "mlp_bf16_autocast" : "mlp";
  for (const auto& [part, operation] :
       {std::pair{"_forward", &compiled.forward}, std::pair{"_backward", &compiled.backward}}) {
    absl::StatusOr<CompiledOperation> made = CompilePart(name + part, compiled.operands, in);
    if (!made.ok()) return made.status();
    *operation = *std::move(made);
  }
  return [&network, compiled](timing::PhaseMarker& marker) { compiled.Step(network, marker); };
}

workload::Mlp WorkAt(const Point& at) {
  return {.batch = at.Number("batch"),
          .width = at.Number("d"),
          .layers = at.Number("layers"),
          .compute = DtypesOf(at).compute,
          .parts = static_cast<double>(ModelParts(at))};
}

// As ranks share it: with ParallelKind::kTensor, the weights of each other layer are divided by rows, and of the next
// one by columns, whose products are terms of a sum.
models::ParallelModel SharedNetwork(const Network& all, RunLayer run, std::vector<Layer> layers,
                                    const models::ParallelModelOptions& options) {
  models::ParallelModel model;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool is_first = i % 2 == 0;
    model.parameters.push_back({layers[i].weight, i, is_first ? 0 : 1});
    model.parameters.push_back({layers[i].bias, i, is_first ? 0 : models::SharedParameter::kWhole});
  }
  const int64_t rows = all.input.size(0) / options.parts;
  const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, options.part * rows, rows); };
  model.forward = [=, x = part(all.input), casts = all.autocast, divided = options.ranks > 1, hooks = &options.hooks] {
    const Autocast guard(casts, x.device().type());
    at::Tensor y = x;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const Layer& layer = layers[i];
      y = models::InUnit(*hooks, i, [&] {
        if (!divided) return run(y, layer.weight, layer.bias);
        if (i % 2 == 0) return run(hooks->ToShards(y), layer.weight, layer.bias);
        return at::gelu(hooks->FromShards(at::linear(y, layer.weight)).add(layer.bias));
      });
    }
    return y;
  };
  // The gradient of the whole batch is the mean of its parts' gradients.
  model.backward = [upstream = part(all.upstream), share = 1 / static_cast<double>(rows)](const at::Tensor& y) {
    y.backward(upstream.mul(share).to(y.scalar_type()));
  };
  return model;
}

Network NetworkAt(const Point& at, Inputs& in) {
  const int64_t width = at.Int("d");
  const int64_t rows = at.Int("batch") * BatchParts(at);
  Network network{.input = in.Randn({rows, width}),
                  .upstream = in.Randn({rows, width}),
                  .autocast = at.Text("dtype") == kBf16Autocast,
                  .steps = at.Int("steps")};
  // Twice the variance of a linear layer's default keeps GELU's output, and so the gradients, from fading with depth.
  const double scale = std::sqrt(2.0 / static_cast<double>(width));
  const auto layers = [layers = at.Int("layers"), width, scale](const models::TransformerModel::MakeParameter& make) {
    std::vector<Layer> made;
    for (int64_t i = 0; i < layers; ++i) made.push_back({make({width, width}, scale), make({width}, 0.1)});
    return made;
  };
  const models::TransformerModel::MakeParameter make = [&](at::IntArrayRef shape, double deviation) {
    return in.Randn(shape, workload::Dtype::kFp32, deviation).requires_grad_(true);
  };
  const observe::Range range(observe::kParametersRange);
  if (ParallelAt(at) == nullptr) {
    network.layers = layers(make);
    return network;
  }
  models::ParallelRun::Options options = ParallelOptions(at, in);
  options.passes = network.steps;
  const RunLayer run = at.Text("impl") == "native" ? models::NativeLinearGelu : EagerLayer;
  network.shared = std::make_shared<models::ParallelRun>(
      in.shared_group(),
      [network, run, layers](const models::ParallelModelOptions& model) {
        return SharedNetwork(network, run, layers(model.make), model);
      },
      make, options);
  return network;
}

ParallelWork ParallelWorkAt(const Point& at) {
  constexpr double kBytes = 4;  // fp32
  const workload::Mlp work = WorkAt(at);
  const double ranks = at.Number(kRanksAxis);
  const double rows = work.batch * work.width * kBytes;
  const double parameters = work.Parameters() * kBytes;
  // The inputs and the gradients of the output of all ranks, the output, and its own gradient divided by the rows.
  const double batches = 2 * static_cast<double>(BatchParts(at)) * rows;
  const double operands = batches + work.batch * work.width * workload::ElementBytes(work.compute);
  return {.cost = workload::Repeated(work.TrainingCost(at.Number("steps")), 1 / work.parts),
          .parameters = parameters,
          .peak = work.ResidentBytes() - 2 * rows + batches + rows,
          .sharded_peak = parameters / ranks + operands + rows + workload::ShardedPeak(work.Units(), ranks, /*loss=*/0),
          .operands = operands,
          .loss_gradient = rows,
          // One of each pair of layers, forward and backward, but for the input.
          .summed = (work.layers - 1) * rows,
          .passes = at.Number("steps"),
          .units = work.Units()};
}

absl::Status Supports(const Point& at, const Device& /*device*/) {
  if (absl::Status status = SupportsParallel(at); !status.ok() || ParallelAt(at) == nullptr) return status;
  if (ParallelAt(at)->needs_optimizer) {
    return absl::UnimplementedError("zero1 divides the state of an optimizer, which mlp has not; train_step has one");
  }
  if (ModelParts(at) == 1 || (at.Int("layers") % 2 == 0 && at.Int("d") % ModelParts(at) == 0)) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("parallel:tensor divides pairs of layers, and d by ", ModelParts(at)));
}

// The base point with some of its axes swept.
struct Swept {
  AxisList steps = {2};
  AxisList layers = {4};
  AxisList batch = {256};
  AxisList width = {256};
};

GridAxes Sweep(const char* dtype, const Swept& swept, const AxisList& impl = {"eager"}) {
  return {{"impl", impl},           {"dtype", {dtype}},     {"steps", swept.steps},
          {"layers", swept.layers}, {"batch", swept.batch}, {"d", swept.width}};
}

GridAxes SharedSweep(const AxisList& parallel) {
  GridAxes grid = Sweep("fp32", {.width = {1024}});
  grid.emplace_back(kParallelAxis, parallel);
  grid.emplace_back(kRanksAxis, AxisList{2});
  return grid;
}

const Registration kMlp =
    FamilyOf<Network>("mlp", "layers x (Linear d -> d, GELU), forward and backward")
        .Dtypes({"fp32", kBf16Autocast})
        .Passes({kForwardBackward})
        .Size("steps", "forward and backward passes in one timed step")
        .Size("layers")
        .Size("batch")
        .Size("d", "width of every layer")
        .Axes(ParallelAxes())
        .DefaultCache(kWarm)
        .Work([](const Point& at) {
          return ParallelAt(at) == nullptr ? WorkAt(at).TrainingCost(at.Number("steps"))
                                           : ParallelCost(at, ParallelWorkAt(at));
        })
        .Supports(Supports)
        .Operands(NetworkAt)
        .Result([](const Network& n) { return n.Result(); })
        .Reference([](const Network& n) { return n.Reference(); })
        // Forward and backward each round at the product and at the GELU of every layer; through 20 layers an error
        // grows to about twice its size, and the worst of a million elements lies at five standard deviations.
        .Within([](const Point& at) {
          return Tolerance{.dtype = WorkAt(at).compute,
                           .reduction = std::max(at.Number("d"), at.Number("batch")),
                           .roundings = 4 * at.Number("layers"),
                           .amplification = 4};
        })
        .Details([](const Point& at, const std::shared_ptr<Network>& network, Case& built) {
          built.parameters = WorkAt(at).Parameters();
          if (network->shared != nullptr) return DescribeParallel(at, ParallelWorkAt(at), network->shared, built);
          built.phases = {"forward", "backward"};
          built.autograd = true;
          built.AddCount("tile_products", [network] { return network->products.by_tiles; });
          built.AddCount("library_kernels", [network] { return network->products.by_library; });
        })
        .Impl("eager", [](Network& n, timing::PhaseMarker& marker) { n.Step(EagerLayer, marker); })
        .LaunchesAt(ParallelKernels)
        .Impl("compiled", OnCpu(PrepareCompiled))
        .Impl("native",
              OnCpu([](Network& n, timing::PhaseMarker& marker) { n.Step(models::NativeLinearGelu, marker); }))
        .Limits("its products are oneDNN's or by tiles, its GELU our own kernel")
        .Impl("fastest",
              OnCpu([](Network& n, timing::PhaseMarker& marker) { n.Step(models::FastestLinearGelu, marker); }))
        .Takes({kBf16Autocast}, "native, but with LibTorch's products where those were measured to be faster")
        .When([](const Point& /*at*/, const Device& /*device*/) { return SupportsChoice(); })
        .Graph()
        .DefaultImpl("eager")
        .Points(Suite::kQuick, Sweep("fp32", {.steps = {2, 4, 6, 8, 10}}))
        .Points(Suite::kQuick, Sweep("fp32", {.layers = {8, 12, 16, 20}}))
        .Points(Suite::kQuick, Sweep("fp32", {.batch = {512, 768, 1024, 1280}}))
        .Points(Suite::kQuick, Sweep("fp32", {.width = {512, 768, 1024, 1280}}))
        .Points(Suite::kQuick, Sweep(kBf16Autocast, {.width = {256, 512, 768, 1024, 1280}}))
        .Points(Suite::kQuick, Sweep("fp32", {.steps = {5}, .layers = {16}, .batch = {128}, .width = {128}}))
        .Points(Suite::kStandard, Sweep("fp32", {.width = {256, 512, 768, 1024, 1280}}, {"compiled", "native"}))
        .Points(Suite::kStandard, Sweep(kBf16Autocast, {.width = {256, 512, 768, 1024, 1280}}, {"compiled", "native"}))
        .Points(Suite::kStandard, Sweep(kBf16Autocast, {.steps = {4, 6, 8, 10}}))
        .Points(Suite::kStandard, Sweep(kBf16Autocast, {.layers = {8, 12, 16, 20}}))
        .Points(Suite::kStandard, Sweep(kBf16Autocast, {.batch = {512, 768, 1024, 1280}}))
        .Points(Suite::kStandard, Sweep(kBf16Autocast, {.width = {256, 512, 1024}}, {"graph"}))
        .Points(Suite::kStandard,
                SharedSweep({"ddp_naive", "ddp_flat", "ddp_overlap", "ddp_bucketed", "ddp_torch", "fsdp", "tensor"}))
        .Growth("steps", 1)
        .Growth("layers", 1)
        .Growth("batch", 1)
        .Growth("d", 2);

}  // namespace
}  // namespace roofbench
