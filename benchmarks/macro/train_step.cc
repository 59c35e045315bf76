// One training step of a transformer: forward with its loss, backward, AdamW.
//
// The sizes are those of Stanford CS336, assignment 2 (vocabulary 10 000, batch 4, context 128 to 1024), from 128.6
// million parameters to 12.8 billion; d_model, d_ff, layers and heads can replace those of the size. The quick suite
// has the smallest of the published points; larger ones take seconds to minutes a step on a CPU.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/implementations.h"
#include "benchmarks/native.h"
#include "lib/harness/device.h"
#include "lib/harness/family.h"
#include "lib/harness/graph.h"
#include "lib/models/native_layers.h"
#include "lib/models/optimizer.h"
#include "lib/models/trainer.h"
#include "lib/models/trainer_check.h"
#include "lib/observe/peak_memory.h"
#include "lib/observe/ranges.h"
#include "lib/workload/transformer_training.h"

namespace roofbench {
namespace {

using workload::Dtype;
using workload::TrainingMode;

enum Phase { kForward, kBackward, kOptimizer };

// A value of the axis `dtype`: what the products run in, and what parameters and their gradients are stored in.
struct Precision {
  std::string name;
  Dtype compute;
  Dtype storage;
};

const std::vector<Precision>& Precisions() {
  static const auto* rows = new std::vector<Precision>{{"fp32", Dtype::kFp32, Dtype::kFp32},
                                                       {"tf32", Dtype::kTf32, Dtype::kFp32},
                                                       {"bf16_autocast", Dtype::kBf16, Dtype::kFp32},
                                                       {"bf16", Dtype::kBf16, Dtype::kBf16}};
  return *rows;
}

struct Mode {
  std::string name;
  TrainingMode mode;
  std::vector<std::string> phases;
};

const std::vector<Mode>& Modes() {
  static const auto* rows = new std::vector<Mode>{{"fwd", TrainingMode::kForward, {"forward"}},
                                                  {"fwd_bwd", TrainingMode::kForwardBackward, {"forward", "backward"}},
                                                  {"step", TrainingMode::kStep, {"forward", "backward", "optimizer"}}};
  return *rows;
}

struct OptimizerChoice {
  std::string name;
  workload::OptimizerKind kind;
  models::MakeOptimizer make;
  models::MakeOptimizer make_native;  // of impl:native with fp32 parameters
};

const std::vector<OptimizerChoice>& Optimizers() {
  using workload::OptimizerKind;
  static const auto* rows = new std::vector<OptimizerChoice>{
      {"sgd", OptimizerKind::kSgd, models::MakeSgd, models::MakeSgd},
      {"adamw", OptimizerKind::kAdamW, models::MakeAdamW, models::MakeAdamW},
      {"adamw_fused", OptimizerKind::kAdamW, models::MakeFusedAdamW, models::MakeNativeAdamW}};
  return *rows;
}

template <typename Row>
const Row& RowOf(const std::vector<Row>& rows, const std::string& name) {
  for (const Row& row : rows) {
    if (row.name == name) return row;
  }
  throw std::logic_error("no row " + name);
}

template <typename Row>
std::vector<std::string> NamesOf(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(row.name);
  return names;
}

std::vector<std::string> SizeNames() {
  std::vector<std::string> names;
  for (const auto& preset : workload::kTransformerPresets) names.emplace_back(preset.name);
  return names;
}

// The size's own shape where an axis says no other.
workload::Transformer ShapeAt(const Point& at) {
  workload::Transformer shape = *workload::FindTransformer(at.Text("size"));
  for (const auto& [axis, value] : {std::pair{"d_model", &shape.d_model},
                                    {"d_ff", &shape.d_ff},
                                    {"layers", &shape.layers},
                                    {"heads", &shape.heads}}) {
    if (at.Text(axis) != at.Text("size")) *value = at.Number(axis);
  }
  shape.vocab = at.Number("vocab");
  return shape;
}

models::MakeOptimizer MakeOptimizerAt(const Point& at) {
  const OptimizerChoice& choice = RowOf(Optimizers(), at.Text("optimizer"));
  const bool native = at.Text("impl") == "native" && RowOf(Precisions(), at.Text("dtype")).storage == Dtype::kFp32;
  return native ? choice.make_native : choice.make;
}

TrainingMode ModeAt(const Point& at) { return RowOf(Modes(), at.Text("mode")).mode; }

workload::TransformerTraining WorkAt(const Point& at) {
  const Precision& precision = RowOf(Precisions(), at.Text("dtype"));
  return {
      .shape = ShapeAt(at),
      .batch = at.Number("batch"),
      .context = at.Number("context"),
      .compute = precision.compute,
      .storage = precision.storage,
      .attention = at.Text("attention") == "naive" ? workload::AttentionKind::kNaive : workload::AttentionKind::kFused,
      .optimizer = RowOf(Optimizers(), at.Text("optimizer")).kind,
      .implementation = at.Text("impl") == "native" ? workload::TrainingImplementation::kNative
                                                    : workload::TrainingImplementation::kEager};
}

// A model with its batch, and what is known of its memory.
struct Training {
  // Of the native implementation; first, so that the memory goes back when all of it is free.
  std::unique_ptr<models::RetainedMemory> retained;
  models::Trainer trainer;
  at::Tensor tokens;
  at::Tensor targets;
  double parameter_bytes = 0;
  double gradient_bytes = 0;
  double activation_bytes = 0;  // grown by forward, of the one step that runs with memory observed

  at::Tensor Forward() {
    const observe::Range range("forward");
    const std::optional<double> before = observe::PeakMemory::BytesNow();
    const at::Tensor loss = trainer.Forward(tokens, targets);
    if (before) activation_bytes = *observe::PeakMemory::BytesNow() - *before;
    return loss;
  }
  void Backward(const at::Tensor& loss) {
    const observe::Range range("backward");
    trainer.Backward(loss);
    if (gradient_bytes == 0) gradient_bytes = trainer.GradientBytes();
  }
  void Optimize() {
    const observe::Range range("optimizer");
    trainer.Optimize();
  }
};

constexpr models::OptimizerSettings kSettings{.learning_rate = 1e-4};
// A larger forward is checked on one sequence of the batch: a gradient in double precision takes several steps' time.
constexpr double kWholeBatchFlops = 1e10;

std::shared_ptr<Training> MakeTraining(const Point& at, Inputs& in, const workload::TransformerTraining& work) {
  const bool trains = ModeAt(at) != TrainingMode::kForward;
  const auto context = at.Int("context");
  models::Transformer model(
      work.shape, context,
      {.heads = static_cast<int64_t>(work.shape.heads),
       .attention = at.Text("attention") == "naive" ? models::Attention::kNaive : models::Attention::kSdpa,
       .layers = at.Text("impl") == "native" ? &models::NativeLayers() : &models::EagerLayers(),
       .device = in.device().torch_device()},
      [&](at::IntArrayRef shape, double deviation) {
        const at::Tensor parameter = deviation > 0 ? in.Randn(shape, work.storage, deviation)
                                                   : in.Keep(at::ones(shape, StorageType(work.storage)));
        return parameter.requires_grad_(trains);
      });
  std::vector<at::Tensor> parameters = model.Parameters();
  double parameter_bytes = 0;
  for (const at::Tensor& parameter : parameters) parameter_bytes += static_cast<double>(parameter.nbytes());
  std::unique_ptr<models::Optimizer> optimizer;
  if (ModeAt(at) == TrainingMode::kStep) {
    optimizer = MakeOptimizerAt(at)(std::move(parameters), kSettings);
  }
  const int64_t vocab = at.Int("vocab");
  return std::make_shared<Training>(
      Training{.retained = at.Text("impl") == "native" ? std::make_unique<models::RetainedMemory>() : nullptr,
               .trainer = models::Trainer(std::move(model), std::move(optimizer), work.IsMixed()),
               .tokens = in.Integers(0, vocab, {at.Int("batch"), context}),
               .targets = in.Integers(0, vocab, {at.Int("batch"), context}),
               .parameter_bytes = parameter_bytes});
}

CaseStep StepOf(const std::shared_ptr<Training>& training, TrainingMode mode) {
  switch (mode) {
    case TrainingMode::kForward:
      return [training](timing::PhaseMarker& marker) {
        training->Forward();
        marker.End(kForward);
      };
    case TrainingMode::kForwardBackward:
      return [training](timing::PhaseMarker& marker) {
        const at::Tensor loss = training->Forward();
        marker.End(kForward);
        training->Backward(loss);
        training->trainer.ForgetGradients();
        marker.End(kBackward);
      };
    case TrainingMode::kStep:
      return [training](timing::PhaseMarker& marker) {
        const at::Tensor loss = training->Forward();
        marker.End(kForward);
        training->Backward(loss);
        marker.End(kBackward);
        training->Optimize();
        marker.End(kOptimizer);
      };
  }
  throw std::logic_error("unknown mode");
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const workload::TransformerTraining work = WorkAt(at);
  const TrainingMode mode = ModeAt(at);
  const auto training = MakeTraining(at, in, work);
  const OptimizerChoice& optimizer = RowOf(Optimizers(), at.Text("optimizer"));
  const auto check = std::make_shared<models::TrainerCheck>(
      training->trainer, training->tokens, training->targets,
      models::TrainerCheck::Options{.sequences = work.ForwardMatmulFlops() < kWholeBatchFlops ? at.Int("batch") : 1,
                                    .gradients = mode != TrainingMode::kForward,
                                    .make_optimizer = mode == TrainingMode::kStep ? MakeOptimizerAt(at) : nullptr,
                                    .has_moments = optimizer.kind == workload::OptimizerKind::kAdamW,
                                    .settings = kSettings,
                                    .reference_type = work.compute == Dtype::kBf16 ? at::kFloat : at::kDouble});
  Case built{.step = StepOf(training, mode),
             .phases = RowOf(Modes(), at.Text("mode")).phases,
             .result = [check, training] { return check->Result(); },
             .reference = [check, training] { return check->Reference(); },
             .tolerance = {.dtype = work.compute,
                           .reduction = work.Tokens(),
                           .roundings = 10 * work.shape.layers,
                           .amplification = 4},
             .autograd = mode != TrainingMode::kForward,
             .parameters = work.shape.Parameters().Total(),
             .model = {.tokens = work.Tokens(), .flops = work.PalmFlops(mode), .dtype = work.compute},
             .least_samples = 2};
  if (at.Text("warmup") != "auto") built.warmup_iters = at.Int("warmup");
  const workload::TrainingMemory predicted = work.Memory(mode);
  built.figures = {{"parameter_mem", [=] { return training->parameter_bytes; }},
                   {"predicted_parameter_mem", [=] { return predicted.parameters; }}};
  const workload::TransformerParameters counts = work.shape.Parameters();
  for (const auto& [component, count] : {std::pair{"embedding_params", counts.embedding},
                                         {"attention_params", counts.attention},
                                         {"feedforward_params", counts.feed_forward},
                                         {"norm_params", counts.norms},
                                         {"head_params", counts.head}}) {
    built.figures.emplace_back(component, [count = count] { return count; });
  }
  const auto add = [&](const std::string& part, std::function<double()> measured, double expected) {
    if (expected <= 0) return;
    built.figures.emplace_back(part + "_mem", std::move(measured));
    built.figures.emplace_back("predicted_" + part + "_mem", [=] { return expected; });
  };
  add(
      "gradient", [=] { return training->gradient_bytes; }, predicted.gradients);
  add(
      "optimizer", [=] { return training->trainer.optimizer()->StateBytes(); }, predicted.optimizer);
  add(
      "activation", [=] { return training->activation_bytes; }, predicted.activations);
  if (at.Text("impl") == "graph") return Graphed(std::move(built), in.device());
  return built;
}

absl::Status Supports(const Point& at, const Device& device) {
  if (at.Text("impl") == "graph" && ModeAt(at) == TrainingMode::kStep && at.Text("optimizer") == "adamw") {
    return absl::UnimplementedError(
        "optimizer:adamw counts its steps on the host, where a graph would repeat one of them for ever; "
        "adamw_fused counts them on the device");
  }
  const workload::Transformer shape = ShapeAt(at);
  const auto d_model = static_cast<int64_t>(shape.d_model);
  const auto heads = static_cast<int64_t>(shape.heads);
  if (d_model % heads != 0 || d_model / heads % 2 != 0) {
    return absl::UnimplementedError("d_model " + std::to_string(d_model) + " in " + std::to_string(heads) +
                                    " heads leaves no even head size, which RoPE needs");
  }
  return ImplementationSupports(at, device);
}

const Registration kTrainStep(
    Family("train_step", "a transformer's training step: forward with loss, backward, optimizer")
        .Axis({.name = "impl",
               .choices = {"eager", "native", "graph"},
               .doc = "eager: LibTorch's operations; native: oneDNN and our own kernels; graph: a CUDA graph"})
        .Axis({.name = "mode", .choices = NamesOf(Modes()), .default_value = "step"})
        .Axis({.name = "size", .choices = SizeNames(), .doc = "a preset of d_model, d_ff, layers and heads"})
        .Axis({.name = "context", .doc = "tokens of a sequence"})
        .Axis({.name = "dtype",
               .choices = NamesOf(Precisions()),
               .doc = "bf16_autocast: products in bf16 over fp32 parameters"})
        .Axis({.name = "attention", .choices = {"naive", "sdpa"}, .default_value = "sdpa"})
        .Axis({.name = "optimizer", .choices = NamesOf(Optimizers()), .default_value = "adamw_fused"})
        .Axis({.name = "warmup",
               .choices = {"auto", "0", "1", "2", "5"},
               .default_value = "auto",
               .doc = "steps before the samples; 0: the very first steps are among them"})
        .Axis({.name = "batch", .default_value = "4", .doc = "sequences of a step"})
        .Axis({.name = "vocab", .default_value = "10000"})
        .Axis({.name = "d_model", .default_value = "size"})
        .Axis({.name = "d_ff", .default_value = "size"})
        .Axis({.name = "layers", .default_value = "size"})
        .Axis({.name = "heads", .default_value = "size"})
        .DefaultCache("warm")
        .LongSteps(10)
        // Steps of seconds: what most people run, and what it can be.
        .Grid(Suite::kQuick,
              {{"impl", {"eager"}}, {"size", {"small"}}, {"context", {"128"}}, {"dtype", {"bf16_autocast"}}})
        .Grid(Suite::kQuick,
              {{"impl", {"native"}}, {"size", {"small"}}, {"context", {"128"}}, {"dtype", {"fp32", "bf16_autocast"}}})
        .Grid(Suite::kStandard, {{"impl", {"eager"}},
                                 {"mode", {"fwd_bwd"}},
                                 {"size", {"small", "medium"}},
                                 {"context", {"128", "256", "512", "1024"}},
                                 {"dtype", {"fp32", "bf16_autocast"}}})
        .Grid(Suite::kStandard, {{"impl", {"eager", "native"}},
                                 {"mode", {"fwd", "step"}},
                                 {"size", {"small", "medium"}},
                                 {"context", {"128", "256", "512", "1024"}},
                                 {"dtype", {"fp32", "bf16_autocast"}}})
        .Grid(Suite::kStandard, {{"impl", {"eager"}},
                                 {"size", {"small"}},
                                 {"context", {"128"}},
                                 {"dtype", {"fp32"}},
                                 {"warmup", {"0", "1", "2", "5"}}})
        .Grid(Suite::kStandard, {{"impl", {"eager"}},
                                 {"size", {"small"}},
                                 {"context", {"128", "1024"}},
                                 {"dtype", {"fp32"}},
                                 {"attention", {"naive"}}})
        .Grid(Suite::kStandard, {{"impl", {"eager"}},
                                 {"size", {"small"}},
                                 {"context", {"128"}},
                                 {"dtype", {"fp32"}},
                                 {"optimizer", {"sgd", "adamw"}}})
        .Grid(Suite::kFull, {{"impl", {"eager"}},
                             {"mode", {"fwd", "fwd_bwd", "step"}},
                             {"size", SizeNames()},
                             {"context", {"128", "256", "512", "1024"}},
                             {"dtype", {"fp32", "bf16_autocast"}}})
        .Grid(Suite::kFull, {{"impl", {"eager"}},
                             {"mode", {"step"}},
                             {"size", SizeNames()},
                             {"context", {"512"}},
                             {"dtype", {"tf32", "bf16"}}})
        .Grid(Suite::kFull, {{"impl", {"native", "graph"}},
                             {"mode", {"step"}},
                             {"size", SizeNames()},
                             {"context", {"128", "1024"}},
                             {"dtype", {"fp32", "bf16_autocast"}}})
        .Cost([](const Point& at) { return WorkAt(at).Step(ModeAt(at)); })
        .Supports(Supports)
        .Build(Build));

}  // namespace
}  // namespace roofbench
