// SPDX-License-Identifier: Apache-2.0
// One training step of a transformer: forward with its loss, backward, AdamW.
//
// The sizes are those of Stanford CS336, assignment 2 (vocabulary 10 000, batch 4, context 128 to 1024), from 128.6
// million parameters to 12.8 billion; d_model, d_ff, layers and heads can replace those of the size. The quick suite
// has the smallest of the published points; larger ones take seconds to minutes a step on a CPU.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/macro/parallel.h"
#include "lib/aten/attention.h"
#include "lib/aten/storage_type.h"
#include "lib/models/training/optimizer.h"
#include "lib/models/training/trainer.h"
#include "lib/observe/ranges.h"
#include "lib/suite/family_of.h"
#include "lib/workload/models/transformer.h"

namespace roofbench {
namespace {

using workload::Dtype;
using workload::TrainingMode;

// In the order of models::TrainingPhase.
constexpr std::string_view kPhases[] = {"forward", "backward", "optimizer"};

// A value of the axis `pass`, and how many of the phases it has.
struct Pass {
  const char* name;
  TrainingMode mode;
  std::ptrdiff_t phases;
};
constexpr Pass kPasses[] = {{kStep, TrainingMode::kStep, 3},
                            {kInference, TrainingMode::kInference, 1},
                            {kForward, TrainingMode::kForward, 1},
                            {kForwardBackward, TrainingMode::kForwardBackward, 2}};

struct OptimizerChoice {
  const char* name;
  workload::OptimizerKind kind;
  models::MakeOptimizer make;
  models::MakeOptimizer make_native;  // of impl:native with fp32 parameters
};
constexpr OptimizerChoice kOptimizers[] = {
    {"sgd", workload::OptimizerKind::kSgd, models::MakeSgd, models::MakeSgd},
    {"adamw", workload::OptimizerKind::kAdamW, models::MakeAdamW, models::MakeAdamW},
    {"adamw_foreach", workload::OptimizerKind::kAdamWForeach, models::MakeForeachAdamW, models::MakeForeachAdamW},
    {"adamw_fused", workload::OptimizerKind::kAdamW, models::MakeFusedAdamW, models::MakeNativeAdamW}};

// One process, or a rank of several.
struct Training {
  std::optional<models::TrainingRun> alone = {};
  std::shared_ptr<models::ParallelRun> shared = {};
};

TrainingMode ModeAt(const Point& at) { return RowOf(kPasses, at.Text("pass")).mode; }
bool IsFastest(const Point& at) { return at.Text("impl") == "fastest"; }
bool IsNative(const Point& at) { return at.Text("impl") == "native" || IsFastest(at); }
bool IsCompiled(const Point& at) { return at.Text("impl") == "compiled"; }
bool TakesMean(const Point& at) { return at.Text("objective") == "mean"; }
bool IsNaive(const Point& at) { return at.Text("attention") == "naive"; }

// The shape of the size, with the values of other axes.
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

// One rank's, which has its share of the heads and features. Only built cases know their device.
workload::TransformerTraining WorkAt(const Point& at, bool on_cpu = true) {
  workload::Transformer shape = ShapeAt(at);
  const auto parts = static_cast<double>(ModelParts(at));
  if (parts > 1) {
    shape.head_size = shape.HeadDim();
    shape.heads /= parts;
    shape.d_ff /= parts;
  }
  return {.shape = shape,
          .batch = at.Number("batch"),
          .context = at.Number("context"),
          .compute = DtypesOf(at).compute,
          .storage = DtypesOf(at).storage,
          .attention = IsNaive(at) ? workload::AttentionKind::kNaive : workload::AttentionKind::kFused,
          .optimizer = RowOf(kOptimizers, at.Text("optimizer")).kind,
          .loss = TakesMean(at) ? workload::LossKind::kMeanLogit : workload::LossKind::kCrossEntropy,
          .implementation =
              IsNative(at) ? workload::TrainingImplementation::kNative : workload::TrainingImplementation::kEager,
          .composed_norms = on_cpu,
          .tiles = models::LayerProducts::OfProcess().tiles != nullptr};
}

models::TransformerContext ContextAt(const Point& at, Inputs& in) {
  return {.heads = static_cast<int64_t>(ShapeAt(at).heads),
          .attention = IsNaive(at) ? models::Attention::kNaive : models::Attention::kSdpa,
          .layers = IsFastest(at)  ? &models::FastestLayers()
                    : IsNative(at) ? &models::NativeLayers()
                                   : &models::EagerLayers(),
          .loss = TakesMean(at) ? models::Loss::kMeanLogit : models::Loss::kCrossEntropy,
          .device = in.device().torch_device()};
}

models::MakeOptimizer OptimizerAt(const Point& at) {
  if (ModeAt(at) != TrainingMode::kStep) return nullptr;
  const OptimizerChoice& optimizer = RowOf(kOptimizers, at.Text("optimizer"));
  return IsNative(at) && WorkAt(at).storage == Dtype::kFp32 ? optimizer.make_native : optimizer.make;
}

Training TrainingAt(const Point& at, Inputs& in) {
  const workload::TransformerTraining work = WorkAt(at);
  const TrainingMode mode = ModeAt(at);
  const models::TransformerModel::MakeParameter make = [&](at::IntArrayRef shape, double deviation) {
    const at::Tensor parameter =
        deviation > 0 ? in.Randn(shape, work.storage, deviation) : in.Keep(at::ones(shape, StorageType(work.storage)));
    return parameter.requires_grad_(mode != TrainingMode::kInference);
  };
  const auto integers = [&] {
    return in.Integers(0, at.Int("vocab"), {BatchParts(at) * at.Int("batch"), at.Int("context")});
  };
  if (ParallelAt(at) != nullptr) {
    models::ParallelRun::Options options = ParallelOptions(at, in);
    options.make_optimizer = OptimizerAt(at);
    // An epsilon above the rounding of gradients, which AdamW would otherwise amplify where they are nearly zero.
    options.settings = {.learning_rate = 1e-4, .epsilon = 1e-6};
    const at::Tensor tokens = integers();
    const at::Tensor targets = integers();
    return {.shared = std::make_shared<models::ParallelRun>(
                in.shared_group(),
                models::ParallelTransformer{ShapeAt(at), ContextAt(at, in), work.IsMixed(), tokens, targets}, make,
                options)};
  }
  observe::Range range(observe::kParametersRange);
  models::TransformerModel model(work.shape, at.Int("context"), ContextAt(at, in), make);
  range.Next(observe::kOptimizerRange);
  // A larger forward is checked on one sequence of the batch: a gradient in double precision takes several steps' time.
  constexpr double kWholeBatchFlops = 1e10;
  const models::TrainerCheck::Options check{
      // A package is compiled for the whole batch.
      .sequences = IsCompiled(at) || work.ForwardMatmulFlops() < kWholeBatchFlops ? at.Int("batch") : 1,
      .mode = mode,
      .make_optimizer = OptimizerAt(at),
      .has_moments = work.HasMoments(),
      .settings = {.learning_rate = 1e-4},
      .reference_type = work.compute == Dtype::kBf16 ? at::kFloat : at::kDouble};
  std::unique_ptr<models::Optimizer> made;
  if (check.make_optimizer != nullptr) made = check.make_optimizer(model.Parameters(), check.settings);
  range.Next("batch");
  const at::Tensor tokens = integers();
  const at::Tensor targets = integers();
  return {.alone = models::TrainingRun(models::Trainer(std::move(model), std::move(made), work.IsMixed()), tokens,
                                       targets, check)};
}

ParallelWork ParallelWorkAt(const Point& at) {
  const workload::TransformerTraining work = WorkAt(at);
  const workload::TrainingMemory memory = work.Memory(TrainingMode::kStep);
  const double element = workload::ElementBytes(work.storage);
  return {.cost = work.Step(ModeAt(at)),
          .parameters = memory.parameters,
          .optimizer = memory.optimizer,
          .peak = memory.peak,
          .sharded_peak = work.ShardedPeak(at.Number(kRanksAxis)),
          // The sums of attention and feed-forward layers, forward and backward.
          .summed = 4 * work.shape.layers * work.Tokens() * work.shape.d_model * element,
          .updates = true,
          .units = work.Units()};
}

void Step(Training& training, timing::PhaseMarker& marker) {
  if (training.shared != nullptr) return StepParallel(*training.shared, marker);
  training.alone->Step([&](models::TrainingPhase phase) { marker.End(static_cast<int>(phase)); });
}

absl::StatusOr<CaseStep> PrepareCompiled(Training& all, const Point& at, Inputs& in) {
  models::TrainingRun& training = *all.alone;
  const models::TransformerModel& model = training.trainer().model();
  std::vector<at::Tensor> constants = {model.rope.cosines(), model.rope.sines()};
  for (const at::Tensor& parameter : model.Parameters()) constants.push_back(parameter.detach());
  const auto operands = [constants](const at::Tensor& tokens, const at::Tensor& targets) {
    std::vector<at::Tensor> tensors = {tokens, targets};
    tensors.insert(tensors.end(), constants.begin(), constants.end());
    return tensors;
  };
  const char* const name = WorkAt(at).IsMixed() ? "transformer_bf16_autocast" : "transformer";
  const absl::StatusOr<CompiledOperation> made = CompilePart(name, operands(training.tokens(), training.targets()), in);
  if (!made.ok()) return made.status();
  training.trainer().SetInference([operands, run = made->run](const at::Tensor& tokens, const at::Tensor& targets) {
    return run(operands(tokens, targets));
  });
  return CaseStep([&all](timing::PhaseMarker& marker) { Step(all, marker); });
}

absl::Status SupportsCompiled(const Point& at, const Device& /*device*/) {
  if (ModeAt(at) != TrainingMode::kInference) {
    return absl::UnimplementedError(absl::StrCat("pass:", at.Text("pass"),
                                                 " records gradients, and packages have none; pass:inference is "
                                                 "compiled"));
  }
  if (!TakesMean(at) && !IsNaive(at)) return absl::OkStatus();
  return absl::UnimplementedError("compiled with attention:sdpa and objective:cross_entropy alone");
}

// Bytes by purpose, each with its prediction, and parameters by component.
void DescribeMemory(const Point& at, const std::shared_ptr<Training>& all, Case& built) {
  models::TrainingRun* const training = &*all->alone;
  const workload::TransformerTraining work = WorkAt(at, training->device().is_cpu());
  const workload::TrainingMemory predicted = work.Memory(ModeAt(at));
  const auto add = [&](const std::string& component, double expected, double (models::TrainingRun::*measured)() const) {
    if (expected <= 0) return;
    built.figures.emplace_back(component + "_mem", [=] { return ((*all->alone).*measured)(); });
    built.AddFigure("predicted_" + component + "_mem", expected);
  };
  add("parameter", predicted.parameters, &models::TrainingRun::ParameterBytes);
  add("gradient", predicted.gradients, &models::TrainingRun::GradientBytes);
  add("optimizer", predicted.optimizer, &models::TrainingRun::OptimizerBytes);
  add("activation", predicted.activations, &models::TrainingRun::ActivationBytes);
  for (const auto& [component, count] : work.shape.Parameters().ByComponent()) {
    built.AddFigure(std::string(component) + "_params", count);
  }
}

// LibTorch's kernel for a layer's attention, of queries, keys and values as a step has them.
void DescribeAttention(const Point& at, at::Device device, Case& built) {
  if (IsNative(at) || IsCompiled(at) || IsNaive(at)) return;
  const workload::TransformerTraining work = WorkAt(at);
  const auto heads = static_cast<int64_t>(work.shape.heads);
  const at::AutoGradMode grad(built.autograd);
  const at::Tensor x =
      at::empty({at.Int("batch"), at.Int("context"), heads, static_cast<int64_t>(work.shape.d_model) / heads},
                at::TensorOptions(device).dtype(StorageType(work.compute)))
          .transpose(1, 2)
          .requires_grad_(built.autograd);
  built.AddFigure("attention_backend", static_cast<double>(AttentionBackend(x, x, x, std::nullopt, /*causal=*/true)));
}

void Describe(const Point& at, const std::shared_ptr<Training>& all, Case& built) {
  built.least_samples = 2;
  if (at.Text("warmup") != "auto") built.warmup_iters = at.Int("warmup");
  if (all->shared != nullptr) {
    const workload::TransformerTraining work = WorkAt(at);
    DescribeParallel(at, ParallelWorkAt(at), all->shared, built);
    built.parameters = ShapeAt(at).Parameters().Total();
    const auto parts = static_cast<double>(BatchParts(at));
    workload::TransformerTraining whole = work;
    whole.shape = ShapeAt(at);
    built.model = {
        .tokens = parts * work.Tokens(), .flops = parts * whole.PalmFlops(ModeAt(at)), .dtype = work.compute};
    return;
  }
  models::TrainingRun* const training = &*all->alone;
  const workload::TransformerTraining work = WorkAt(at, training->device().is_cpu());
  const Pass& pass = RowOf(kPasses, at.Text("pass"));
  built.phases.assign(std::begin(kPhases), std::begin(kPhases) + pass.phases);
  built.autograd = pass.mode != TrainingMode::kInference;
  built.cost = work.Step(pass.mode);
  built.parameters = work.shape.Parameters().Total();
  built.model = {.tokens = work.Tokens(), .flops = work.PalmFlops(pass.mode), .dtype = work.compute};
  built.effects = [all] { return StepEffects{.overwritten = {all->alone->loss()}, .updated = all->alone->Updated()}; };
  built.AddCount("tile_products", [all] { return all->alone->products().by_tiles; });
  built.AddCount("library_kernels", [all] { return all->alone->products().by_library; });
  DescribeMemory(at, all, built);
  DescribeAttention(at, training->device(), built);
}

absl::Status Supports(const Point& at, const Device& /*device*/) {
  if (absl::Status status = SupportsParallel(at); !status.ok()) return status;
  if (ParallelAt(at) != nullptr && ModeAt(at) != TrainingMode::kStep) {
    return absl::UnimplementedError("parallel: needs pass:step, whose optimizer ranks update together");
  }
  const workload::Transformer shape = ShapeAt(at);
  const auto d_model = static_cast<int64_t>(shape.d_model);
  const auto heads = static_cast<int64_t>(shape.heads);
  const int64_t parts = ModelParts(at);
  if (heads % parts != 0 || static_cast<int64_t>(shape.d_ff) % parts != 0) {
    return absl::UnimplementedError(
        absl::StrCat(parts, " ranks cannot divide ", heads, " heads and ", shape.d_ff, " features evenly"));
  }
  if (d_model % heads == 0 && d_model / heads % 2 == 0) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("d_model ", d_model, " in ", heads, " heads leaves no even head size, which RoPE needs"));
}

absl::Status SupportsRecordedOptimizer(const Point& at, const Device& /*device*/) {
  const std::string optimizer = at.Text("optimizer");
  const bool counts_on_host = optimizer == "adamw" || optimizer == "adamw_foreach";
  if (ModeAt(at) != TrainingMode::kStep || !counts_on_host) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("optimizer:", optimizer,
                   " counts its steps on the host, where a graph would repeat one of them for ever; adamw_fused counts "
                   "them on the device"));
}

// Those with a shape of their own.
const AxisList kSizes = {"small", "medium", "large", "xl", "2.7B", "10B"};
const AxisList kSmallest = {"small"};  // of the published points
const AxisList kSmall = {"small", "medium"};
const AxisList kContexts = {128, 256, 512, 1024};
const AxisList kStoredInFp32 = {"fp32", kBf16Autocast};

GridAxes Grid(const AxisList& impl, const AxisList& pass, const AxisList& size, const AxisList& context,
              const AxisList& dtype, const GridAxes& more = {}) {
  GridAxes grid = {{"impl", impl}, {"pass", pass}, {"size", size}, {"context", context}, {"dtype", dtype}};
  grid.insert(grid.end(), more.begin(), more.end());
  return grid;
}

const Registration kTrainStep =
    FamilyOf<Training>("train_step", "a transformer's training step: forward with loss, backward, optimizer")
        .Passes(NamesOf(kPasses))
        .Choice("size", NamesOf(workload::kTransformerPresets), "a preset of d_model, d_ff, layers and heads")
        .Size("context", "tokens of a sequence")
        .Dtypes({"fp32", "tf32", kBf16Autocast, "bf16"})
        .Choice("attention", {"naive", "sdpa"}, "", "sdpa")
        .Choice("optimizer", NamesOf(kOptimizers), "", "adamw_fused")
        .Choice("objective", {"cross_entropy", "mean"}, "mean: of the logits, as a published script takes it",
                "cross_entropy")
        .Choice("warmup", {"auto", 0, 1, 2, 5}, "steps before the samples; 0: the very first steps are among them",
                "auto")
        .Size("batch", "sequences of a step", 4)
        .Size("vocab", "", 10000)
        .Size("d_model", "", "size")
        .Size("d_ff", "", "size")
        .Size("layers", "", "size")
        .Size("heads", "", "size")
        .Axes(ParallelAxes())
        .DefaultCache(kWarm)
        .LongSteps(10)
        .Work([](const Point& at) {
          return ParallelAt(at) == nullptr ? WorkAt(at).Step(ModeAt(at)) : ParallelCost(at, ParallelWorkAt(at));
        })
        .Supports(Supports)
        .Operands(TrainingAt)
        .Result([](const Training& training) {
          return training.shared != nullptr ? training.shared->Result() : training.alone->Check().Result();
        })
        .Reference([](const Training& training) {
          return training.shared != nullptr ? training.shared->Reference() : training.alone->Check().Reference();
        })
        .Within([](const Point& at) {
          const workload::TransformerTraining work = WorkAt(at);
          // Ranks are checked after five steps, each of which begins from the rounding of the one before. Of a million
          // elements of a gradient in bf16 the worst error is thirty times as large as the root mean square.
          return Tolerance{.dtype = work.compute,
                           .reduction = work.Tokens() * static_cast<double>(BatchParts(at)),
                           .roundings = 10 * work.shape.layers,
                           .amplification = ParallelAt(at) == nullptr ? 4.0 : 20.0,
                           .rms_part = 0.1};
        })
        .Details(Describe)
        .Impl("eager", Step)
        .LaunchesAt(ParallelKernels)
        .Impl("native", OnCpu(Step))
        .Limits("its products are oneDNN's or by tiles, its layers our own kernels")
        .Impl("fastest", OnCpu(Step))
        .Takes({kBf16Autocast, "bf16"}, "native, but with LibTorch's products where those were measured to be faster")
        .When([](const Point& /*at*/, const Device& /*device*/) { return SupportsChoice(); })
        .Impl("compiled", OnCpu(PrepareCompiled))
        .Takes({"fp32", kBf16Autocast, "bf16"}, "the forward pass alone, of fp32 and bf16")
        .When(SupportsCompiled)
        .Graph()
        .When(SupportsRecordedOptimizer)
        // Steps take seconds, so the quick suite has only the usual eager configuration and the native one.
        .Points(Suite::kQuick, Grid({"eager"}, {kStep}, kSmallest, {128}, {kBf16Autocast}))
        .Points(Suite::kQuick, Grid({"native"}, {kStep}, kSmallest, {128}, kStoredInFp32))
        .Points(Suite::kStandard, Grid({"eager"}, {kForwardBackward}, kSmall, kContexts, kStoredInFp32))
        .Points(Suite::kStandard,
                Grid({"eager", "native"}, {kInference, kForward, kStep}, kSmall, kContexts, kStoredInFp32))
        .Points(Suite::kStandard, Grid({"compiled"}, {kInference}, kSmallest, {128, 512}, kStoredInFp32))
        .Points(Suite::kStandard, Grid({"eager"}, {kStep}, kSmallest, {128}, {"fp32"}, {{"warmup", {0, 1, 2, 5}}}))
        .Points(Suite::kStandard,
                Grid({"eager"}, {kStep}, kSmallest, {128, 1024}, {"fp32"}, {{"attention", {"naive"}}}))
        .Points(Suite::kStandard, Grid({"eager"}, {kStep}, kSmallest, {128}, {"fp32"},
                                       {{"optimizer", {"sgd", "adamw", "adamw_foreach"}}}))
        .Points(Suite::kStandard, Grid({"eager"}, {kStep}, kSmallest, {128}, {"fp32"},
                                       {{kParallelAxis, NamesOf(models::kParallelRows)}, {kRanksAxis, {2}}}))
        .Points(Suite::kFull, Grid({"eager"}, NamesOf(kPasses), kSizes, kContexts, kStoredInFp32))
        .Points(Suite::kFull, Grid({"eager"}, {kStep}, kSizes, {512}, {"tf32", "bf16"}))
        .Points(Suite::kFull, Grid({"native", "graph"}, {kStep}, kSizes, {128, 1024}, kStoredInFp32));

}  // namespace
}  // namespace roofbench
