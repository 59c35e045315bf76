// SPDX-License-Identifier: Apache-2.0
// The lecture's multi-layer perceptron: layers x (Linear d -> d, GELU), forward and backward, swept one axis at a time.
//
// The base point is d=256, 4 layers, batch 256, 2 steps; each of the four is scaled by 1 to 5, and time should grow
// linearly with it; for the width, between d (weights read once) and d² (arithmetic). Small points are bound by
// overhead.

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

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
    return {output.detach(), layers.front().weight.grad(), layers.back().weight.grad(), layers.back().bias.grad()};
  }

  // The same of one step on the same weights in double precision.
  std::vector<at::Tensor> Reference() const {
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
          .compute = DtypesOf(at).compute};
}

Network NetworkAt(const Point& at, Inputs& in) {
  const int64_t width = at.Int("d");
  Network network{.input = in.Randn({at.Int("batch"), width}),
                  .upstream = in.Randn({at.Int("batch"), width}),
                  .autocast = at.Text("dtype") == kBf16Autocast,
                  .steps = at.Int("steps")};
  // Twice the variance of a linear layer's default keeps GELU's output, and so the gradients, from fading with depth.
  const double scale = std::sqrt(2.0 / static_cast<double>(width));
  const observe::Range range(observe::kParametersRange);
  for (int64_t i = 0; i < at.Int("layers"); ++i) {
    network.layers.push_back({in.Randn({width, width}, workload::Dtype::kFp32, scale).requires_grad_(true),
                              in.Randn({width}, workload::Dtype::kFp32, 0.1).requires_grad_(true)});
  }
  return network;
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

const Registration kMlp =
    FamilyOf<Network>("mlp", "layers x (Linear d -> d, GELU), forward and backward")
        .Dtypes({"fp32", kBf16Autocast})
        .Passes({kForwardBackward})
        .Size("steps", "forward and backward passes in one timed step")
        .Size("layers")
        .Size("batch")
        .Size("d", "width of every layer")
        .DefaultCache(kWarm)
        .Work([](const Point& at) { return WorkAt(at).TrainingCost(at.Number("steps")); })
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
        .Details([](const Point& at, const auto&, Case& built) {
          built.phases = {"forward", "backward"};
          built.autograd = true;
          built.parameters = WorkAt(at).Parameters();
        })
        .Impl("eager", [](Network& n, timing::PhaseMarker& marker) { n.Step(EagerLayer, marker); })
        .Impl("compiled", OnCpu(PrepareCompiled))
        .Impl("native",
              OnCpu([](Network& n, timing::PhaseMarker& marker) { n.Step(models::NativeLinearGelu, marker); }))
        .Limits("its products are oneDNN's and its GELU our own kernel")
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
        .Growth("steps", 1)
        .Growth("layers", 1)
        .Growth("batch", 1)
        .Growth("d", 2);

}  // namespace
}  // namespace roofbench
