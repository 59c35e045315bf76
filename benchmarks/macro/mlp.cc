// The lecture's multi-layer perceptron: layers x (Linear d -> d, GELU), forward and backward, swept one axis at a time.
//
// The base point is d=256, 4 layers, batch 256, 2 steps; each of the four grows x1 to x5, and time should grow with
// it: linearly, and between d (weights read once) and d² (arithmetic) for the width. Small points are bound by
// overhead.

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>

#include <cmath>
#include <memory>
#include <utility>

#include "benchmarks/implementations.h"
#include "lib/harness/device.h"
#include "lib/harness/family.h"
#include "lib/harness/graph.h"
#include "lib/models/autocast.h"
#include "lib/workload/mlp.h"

namespace roofbench {
namespace {

enum Phase { kForward, kBackward };

struct Layer {
  at::Tensor weight;
  at::Tensor bias;
};

// The parameters and what the last step left in them.
struct Network {
  std::vector<Layer> layers;
  at::Tensor input;
  at::Tensor upstream;  // gradient of the loss by the output: the loss is the mean of output · upstream
  at::Tensor output;

  at::Tensor Forward(at::Tensor x) const {
    for (const Layer& layer : layers) x = at::gelu(at::linear(x, layer.weight, layer.bias));
    return x;
  }
};

workload::Mlp WorkAt(const Point& at) {
  return {.batch = at.Number("batch"), .width = at.Number("d"), .layers = at.Number("layers"), .compute = at.Dtype()};
}

// The same step on the same weights in double precision: the output and the gradients of the first and the last layer,
// which between them depend on every other one.
std::vector<at::Tensor> Reference(const Network& network) {
  Network exact;
  for (const Layer& layer : network.layers) {
    exact.layers.push_back({layer.weight.detach().to(at::kDouble).requires_grad_(true),
                            layer.bias.detach().to(at::kDouble).requires_grad_(true)});
  }
  const at::Tensor output = exact.Forward(network.input.to(at::kDouble));
  output.backward(network.upstream.to(at::kDouble));
  return {output.detach(), exact.layers.front().weight.grad(), exact.layers.back().weight.grad(),
          exact.layers.back().bias.grad()};
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const int64_t width = at.Int("d");
  const int64_t batch = at.Int("batch");
  const int64_t steps = at.Int("steps");
  const bool autocast = at.Dtype() == workload::Dtype::kBf16;
  const at::DeviceType device = in.device().torch_device().type();
  const auto network = std::make_shared<Network>();
  network->input = in.Randn({batch, width});
  network->upstream = in.Randn({batch, width});
  // Twice the variance of a linear layer's default keeps GELU's output, and so the gradients, from fading with depth.
  const double scale = std::sqrt(2.0 / static_cast<double>(width));
  for (int64_t i = 0; i < at.Int("layers"); ++i) {
    network->layers.push_back({in.Randn({width, width}, workload::Dtype::kFp32, scale).requires_grad_(true),
                               in.Randn({width}, workload::Dtype::kFp32, 0.1).requires_grad_(true)});
  }
  Case built{
      .step =
          [=](timing::PhaseMarker& marker) {
            for (int64_t i = 0; i < steps; ++i) {
              for (Layer& layer : network->layers) {
                layer.weight.mutable_grad().reset();
                layer.bias.mutable_grad().reset();
              }
              {
                const models::Autocast guard(autocast, device);
                network->output = network->Forward(network->input);
              }
              marker.End(kForward);
              network->output.backward(network->upstream.to(network->output.scalar_type()));
              marker.End(kBackward);
            }
          },
      .phases = {"forward", "backward"},
      .result =
          [=] {
            const Network& n = *network;
            return std::vector<at::Tensor>{n.output.detach(), n.layers.front().weight.grad(),
                                           n.layers.back().weight.grad(), n.layers.back().bias.grad()};
          },
      .reference = [=] { return Reference(*network); },
      // Forward and backward each round at the product and at the GELU of every layer; through 20 layers an error grows
      // to about twice its size, and the worst of a million elements lies at five standard deviations.
      .tolerance = {.dtype = at.Dtype(),
                    .reduction = static_cast<double>(std::max(width, batch)),
                    .roundings = 4.0 * at.Number("layers"),
                    .amplification = 4},
      .autograd = true,
      .parameters = WorkAt(at).Parameters(),
  };
  if (at.Text("impl") == "graph") return Graphed(std::move(built), in.device());
  return built;
}

// The base point with some of its axes swept.
struct Swept {
  std::vector<std::string> steps = {"2"};
  std::vector<std::string> layers = {"4"};
  std::vector<std::string> batch = {"256"};
  std::vector<std::string> width = {"256"};
};

GridAxes Sweep(const char* dtype, const Swept& swept) {
  return {
      {"dtype", {dtype}}, {"steps", swept.steps}, {"layers", swept.layers}, {"batch", swept.batch}, {"d", swept.width}};
}

const Registration kMlp(
    Family("mlp", "layers x (Linear d -> d, GELU), forward and backward")
        .Axis({.name = "impl",
               .choices = {"eager", "graph"},
               .default_value = "eager",
               .doc = "graph: the whole step in a CUDA graph"})
        .Axis({.name = "dtype", .choices = {"fp32", "bf16"}, .doc = "bf16: autocast over fp32 parameters"})
        .Axis({.name = "steps", .doc = "forward and backward passes in one timed step"})
        .Axis({.name = "layers"})
        .Axis({.name = "batch"})
        .Axis({.name = "d", .doc = "width of every layer"})
        .DefaultCache("warm")
        .Grid(Suite::kQuick, Sweep("fp32", {.steps = {"2", "4", "6", "8", "10"}}))
        .Grid(Suite::kQuick, Sweep("fp32", {.layers = {"8", "12", "16", "20"}}))
        .Grid(Suite::kQuick, Sweep("fp32", {.batch = {"512", "768", "1024", "1280"}}))
        .Grid(Suite::kQuick, Sweep("fp32", {.width = {"512", "768", "1024", "1280"}}))
        .Grid(Suite::kQuick, Sweep("bf16", {.width = {"256", "512", "768", "1024", "1280"}}))
        .Grid(Suite::kQuick, Sweep("fp32", {.steps = {"5"}, .layers = {"16"}, .batch = {"128"}, .width = {"128"}}))
        .Grid(Suite::kStandard, Sweep("bf16", {.steps = {"4", "6", "8", "10"}}))
        .Grid(Suite::kStandard, Sweep("bf16", {.layers = {"8", "12", "16", "20"}}))
        .Grid(Suite::kStandard, Sweep("bf16", {.batch = {"512", "768", "1024", "1280"}}))
        .Grid(Suite::kStandard, {{"impl", {"graph"}},
                                 {"dtype", {"bf16"}},
                                 {"steps", {"2"}},
                                 {"layers", {"4"}},
                                 {"batch", {"256"}},
                                 {"d", {"256", "512", "1024"}}})
        .ExpectLaw("steps", 1)
        .ExpectLaw("layers", 1)
        .ExpectLaw("batch", 1)
        .ExpectLaw("d", 2)
        .Supports(ImplementationSupports)
        .Cost([](const Point& at) { return WorkAt(at).TrainingCost(at.Number("steps")); })
        .Build(Build));

}  // namespace
}  // namespace roofbench
