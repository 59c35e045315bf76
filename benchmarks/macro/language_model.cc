// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/language_model.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/macro/given.h"
#include "lib/device/gpu.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "lib/models/decoding/compiled_decoder.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/make_decoder.h"
#include "lib/observe/ranges.h"
#include "lib/suite/check.h"
#include "lib/suite/operand_cache.h"
#include "lib/suite/steps/compiled.h"
#include "lib/suite/steps/gpu_step.h"
#include "lib/workload/models/decoder.h"

namespace roofbench {
namespace {

using workload::WeightFormat;

constexpr uint64_t kWeightSeed = 2024;

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

WeightFormat FormatAt(const Point& at) { return *workload::ParseWeightFormat(at.Text("precision")); }

models::Storage StorageAt(const Point& at) {
  const absl::StatusOr<models::DecoderConfig> config = ConfigAt(at);
  models::Storage storage =
      config.ok() ? models::DefaultStorage(*config, FormatAt(at)) : models::Storage::Default(FormatAt(at));
  storage.group = at.Int("group");
  if (at.Text("head") == "16bit") storage.skipped.insert(models::LinearRole::kHead);
  if (at.Text("head") == "quantized") storage.skipped.erase(models::LinearRole::kHead);
  for (const std::string& role : at.Several("keep")) storage.skipped.insert(*models::ParseLinearRole(role));
  storage.activations = static_cast<workload::Activations>(
      std::ranges::find(workload::kActivationsNames, at.Text("activations")) - workload::kActivationsNames.begin());
  storage.int8_cache = at.Text("kv_cache") == "int8";
  storage.outlier_threshold = at.Number("outliers");
  return storage;
}

// The layers that can stay unquantized; the router always does.
std::vector<std::string> KeptRoles() {
  std::vector<std::string> roles;
  for (const models::LinearRole role : models::kLinearRoles) {
    if (role != models::LinearRole::kRouter) roles.emplace_back(Name(role));
  }
  return roles;
}

absl::Status CheckKeep(const Point& at) {
  const std::vector<std::string> kept = at.Several("keep");
  if (kept.empty()) return absl::OkStatus();
  if (workload::UnquantizedFormat(FormatAt(at)) == FormatAt(at)) {
    return absl::UnimplementedError(
        absl::StrCat("keep:", at.Text("keep"),
                     " keeps layers from being quantized, and precision:", at.Text("precision"), " quantizes none"));
  }
  const bool keeps_head = std::ranges::find(kept, Name(models::LinearRole::kHead)) != kept.end();
  if (keeps_head && at.Text("head") == "quantized") {
    return absl::UnimplementedError(
        absl::StrCat("keep:", at.Text("keep"), " and head:quantized ask for two different heads"));
  }
  if (keeps_head && at.Text("head") == "default" && !workload::QuantizesHead(FormatAt(at))) {
    return absl::UnimplementedError(absl::StrCat("precision:", at.Text("precision"),
                                                 " leaves the head unquantized already: leave ",
                                                 std::string(Name(models::LinearRole::kHead)), " out of keep"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<models::DecoderConfig> ConfigAt(const Point& at) {
  const absl::StatusOr<models::Checkpoint>* const given = GivenModel(at.Text("model"));
  if (given == nullptr) return models::ConfigOf(*workload::FindDecoderPreset(at.Text("model")));
  if (!given->ok()) return given->status();
  return (*given)->config();
}

std::vector<AxisSpec> StorageAxes() {
  std::vector<std::string> formats;
  for (const WeightFormat format : workload::kWeightFormats) formats.emplace_back(Name(format));
  return {SharedAxis(kPrecisionAxis, std::move(formats), {}, "of the linear layers"),
          {.name = "group",
           .choices = {"32", "64", "128", "256"},
           .default_value = "64",
           .doc = "weights of int4 that share a scale"},
          {.name = "head",
           .choices = {"default", "16bit", "quantized"},
           .default_value = "default",
           .doc = "of the output head; by default llm_int8 leaves it in 16 bits"},
          {.name = "keep",
           .choices = KeptRoles(),
           .default_value = "none",
           .doc = "linear layers that stay unquantized, in the order given here",
           .several = true},
          {.name = "outliers",
           .default_value = "6",
           .doc = "llm_int8: activations from this size on are outliers; 0: none are",
           .fractions = true},
          {.name = "activations",
           .choices = {workload::kActivationsNames.begin(), workload::kActivationsNames.end()},
           .default_value = "default",
           .doc = "with quantized weights; int8: rounded to 8 bits with a scale per vector, so that products with int8 "
                  "and int4 weights are made of integers; fp16: impl:eager alone; by default bf16"},
          {.name = "kv_cache",
           .choices = {"default", "int8"},
           .default_value = "default",
           .doc = "keys and values: int8: rounded to 8 bits, with a scale per head and token; by default as "
                  "activations are"}};
}

std::vector<AxisSpec> ModelAxes() {
  std::vector<std::string> models = NamesOf(workload::DecoderPresets());
  models.emplace_back(kCheckpointModel);
  std::vector<AxisSpec> axes = StorageAxes();
  axes.insert(axes.begin(),
              {.name = "model", .choices = models, .doc = "random weights of this shape, or --checkpoint"});
  axes.push_back({.name = "batch", .default_value = "1", .doc = "sequences side by side"});
  return axes;
}

namespace {

// Whether ranks can divide the model.
absl::Status SupportsDivided(const Point& at, const models::DecoderConfig& config, const Device& device) {
  if (absl::Status status = SupportsRanks(at); !status.ok() || ParallelAt(at) == nullptr) return status;
  if (device.gpu() != nullptr) {
    return absl::UnimplementedError(
        "its ranks exchange data over Gloo, LibTorch's backend for processors; over NCCL only collectives and training "
        "run");
  }
  return models::PartOf(config, StorageAt(at), ModelParts(at)).status();
}

}  // namespace

absl::Status SupportsModel(const Point& at, const Device& device) {
  const auto config = ConfigAt(at);
  if (!config.ok()) return config.status();
  if (absl::Status status = CheckKeep(at); !status.ok()) return status;
  if (absl::Status status = models::CheckStorage(*config, StorageAt(at)); !status.ok()) return status;
  if (at.Has(kParallelAxis)) {
    if (absl::Status status = SupportsDivided(at, *config, device); !status.ok()) return status;
  }
  if (at.Has("prompt") && at.Has("new")) {
    const int64_t prompt = at.Int("prompt");
    const int64_t read = prompt + at.Int("new") - 1;
    if (absl::Status status = models::CheckGrowth(*config, prompt, read); !status.ok()) return status;
  }
  if (device.gpu() != nullptr && !KernelsOfEager(at).empty()) {
    if (absl::Status status = GpuKernelsSupport(device); !status.ok()) return status;
  }
  return models::StoredMatrix::CheckDevice(FormatAt(at), device.torch_device());
}

std::vector<std::string_view> KernelsOfEager(const Point& at) {
  if (FormatAt(at) != WeightFormat::kInt8 || at.Text("activations") != "default") return {};
  return {"GemvRows"};
}

absl::Status SupportsCompiled(const Point& at, const Device& /*device*/) {
  const absl::StatusOr<models::DecoderConfig> config = ConfigAt(at);
  return config.ok() ? models::CompiledDecoder::Check(*config, StorageAt(at)) : config.status();
}

bool IsOwn(const Point& at) { return at.Text(kImplAxis) == "native" || at.Text(kImplAxis) == "fastest"; }

absl::Status SupportsFastest(const Point& at, const Device& /*device*/) {
  if (StorageAt(at).Unquantized() != WeightFormat::kBf16) {
    return absl::UnimplementedError(absl::StrCat("it chooses between kernels for bf16 vectors, which precision:",
                                                 at.Text("precision"), " has not: impl:native is the same"));
  }
  return SupportsChoice();
}

absl::Status SupportsRecordedTokens(const Point& at) {
  if (StorageAt(at).int8_cache) {
    return absl::UnimplementedError("kv_cache:int8 is not recorded in a graph; impl:eager takes it");
  }
  if (!StoredAt(at).shape.IsMixture() && FormatAt(at) != WeightFormat::kLlmInt8) return absl::OkStatus();
  return absl::UnimplementedError(
      "the host chooses experts, and columns with outliers, between launches, which no graph can record; "
      "impl:eager runs them");
}

workload::StoredDecoder StoredAt(const Point& at) {
  absl::StatusOr<models::DecoderConfig> config = ConfigAt(at);
  if (config.ok() && at.Has(kParallelAxis)) config = models::PartOf(*config, StorageAt(at), ModelParts(at));
  // Otherwise SupportsModel refuses the case later; its name can be listed and planned.
  workload::StoredDecoder stored =
      StorageAt(at).Of(config.ok() ? config->shape : workload::FindDecoderPreset("tiny_llama")->shape);
  stored.own_kernels = IsOwn(at);
  const kernels::TileLinearKernels* const tiles = kernels::TileLinearKernelsHere();
  stored.tiles = tiles != nullptr;
  stored.packs_int4 = tiles != nullptr && tiles->in_registers;
  return stored;
}

namespace {

absl::StatusOr<std::shared_ptr<LoadedModel>> LoadModel(const Point& at, const Device& device,
                                                       const models::ModelPart& part = {}) {
  const absl::StatusOr<models::DecoderConfig> config = ConfigAt(at);
  if (!config.ok()) return config.status();
  const double start = Seconds();
  const observe::Range range(observe::kParametersRange);
  const absl::StatusOr<models::Checkpoint>* const given = GivenModel(at.Text("model"));
  absl::StatusOr<models::DecoderWeights> weights =
      given != nullptr ? models::LoadWeights(**given, StorageAt(at), part)
                       : models::RandomWeights(*config, StorageAt(at), kWeightSeed, device.torch_device(), part);
  if (!weights.ok()) return weights.status();
  if (absl::Status moved = weights->MoveTo(device.torch_device()); !moved.ok()) return moved;
  auto loaded = std::make_shared<LoadedModel>();
  loaded->weights = *std::move(weights);
  loaded->load_seconds = Seconds() - start;
  return loaded;
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> ModelAt(const Point& at, const Device& device,
                                                           const models::ModelPart& part) {
  // The cache keeps one model: a draft must not evict it.
  if (at.Text("model") == kDraftModel) return LoadModel(at, device);
  std::string key = absl::StrCat(at.Text("model"), "/", part.index, "/", part.of);
  for (const AxisSpec& axis : StorageAxes()) absl::StrAppend(&key, "/", at.Text(axis.name));
  const auto make = [&]() -> absl::StatusOr<OperandCache::Made> {
    absl::StatusOr<std::shared_ptr<LoadedModel>> loaded = LoadModel(at, device, part);
    if (!loaded.ok()) return loaded.status();
    const auto bytes = static_cast<double>((*loaded)->weights.nbytes());
    return OperandCache::Made{std::shared_ptr<const void>(*std::move(loaded)), bytes};
  };
  const absl::StatusOr<OperandCache::Made> made = OperandCache::Get(key, make);
  if (!made.ok()) return made.status();
  // Tensors are shared, not copied.
  auto loaded = std::make_shared<LoadedModel>(*std::static_pointer_cast<const LoadedModel>(made->value));
  loaded->unseen_bytes = made->unseen_bytes;
  return loaded;
}

// Our GEMV, for the numbers of vectors that it supports.
models::Int8Product Int8ProductOn(const Device& device) {
  return [launch = GpuLauncher(device)](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale) {
    const int64_t rows = weight.size(0);
    const int64_t cols = weight.size(1);
    at::Tensor y;
    if (x.scalar_type() != at::kBFloat16 || !kernels::TakesGemv(kernels::WeightType::kInt8, x.size(0), cols)) return y;
    const at::Tensor vectors = x.contiguous();
    y = at::empty({x.size(0), rows}, x.options());
    launch([&](const kernels::GpuKernels& table, void* stream) {
      return table.gemv({.type = kernels::WeightType::kInt8,
                         .weight = weight.const_data_ptr(),
                         .scale = scale.const_data_ptr(),
                         .x = vectors.const_data_ptr(),
                         .y = y.data_ptr(),
                         .rows = rows,
                         .cols = cols,
                         .batch = static_cast<int>(x.size(0))},
                        stream);
    });
    return y;
  };
}

// What the implementations need of the suite.
models::DecoderTools ToolsOf(const Point& at, Inputs& in) {
  models::DecoderTools tools{
      .record =
          [gpu = in.device().gpu()](const std::function<void()>& launches) {
            const std::shared_ptr<GpuGraph> graph = gpu->Record([&](const std::function<void()>&) { launches(); });
            return [graph] { graph->Replay([] {}); };
          },
      .compile = [&in](const std::vector<at::Tensor>& operands) { return CompilePart("decoder", operands, in); }};
  if (at.Has("prompt")) tools.compiled_lengths.push_back(at.Int("prompt"));
  if (at.Has("depth") || (at.Has("new") && at.Int("new") > 1)) tools.compiled_lengths.push_back(1);
  return tools;
}

}  // namespace

absl::StatusOr<LoadedDecoder> DecoderAt(const Point& at, int64_t capacity, Inputs& in, int64_t piece) {
  const Device& device = in.device();
  LoadedDecoder loaded;
  models::ModelPart part;
  if (at.Has(kParallelAxis) && ParallelAt(at) != nullptr) {
    loaded.shared = std::make_shared<SharedSteps>(in.shared_group(), [at, &device] { return LoadModel(at, device); });
    part = {in.group().rank(), in.group().size()};
  }
  const auto model = ModelAt(at, device, part);
  if (!model.ok()) return model.status();
  const bool is_shared = loaded.shared != nullptr;
  auto decoder = models::MakeDecoder(at.Text("impl"), (*model)->weights, {at.Int("batch"), capacity, piece},
                                     is_shared ? at::get_num_threads() : device.threads(),
                                     is_shared ? loaded.shared->hooks() : models::NoHooks(), ToolsOf(at, in));
  if (!decoder.ok()) return decoder.status();
  if (device.gpu() != nullptr && !KernelsOfEager(at).empty()) (*decoder)->MultiplyInt8By(Int8ProductOn(device));
  loaded.model = *model;
  loaded.decoder = *std::move(decoder);
  return loaded;
}

namespace {

// The cache of these tokens that a reference attends to instead of its own.
const models::KvCache* Attended(const models::KvCache* cache) {
  return cache != nullptr && cache->Is8Bits() ? cache : nullptr;
}

// The tolerance of logits.
Tolerance LogitTolerance(const LoadedModel& model) {
  const workload::Decoder& shape = model.weights.config.shape;
  const WeightFormat format = model.weights.storage.format;
  // A layer rounds at about eight places. LLM.int8() rounds activations to 8 bits, where their last bf16 bit may
  // decide between 8-bit steps. The worst logits of nine steps came to 0.63 of the bound of bf16 over 60 seeds of two
  // layers, and to 2.7 over 8 of four layers of Llama-3.2-1B, with a vocabulary of 128,256.
  constexpr double kLlmInt8 = 4;
  // Near a tie, the last bit decides which expert a token takes, and the results differ entirely: nine of ten seeds of
  // two layers stayed below 0.5 in bf16 and in LLM.int8(), the others came to 9.8 at most (100 to 200 seeds each,
  // 2026-11-21).
  constexpr double kMixture = 10;
  const models::Storage& storage = model.weights.storage;
  const bool rounds = format == WeightFormat::kLlmInt8 || storage.activations == workload::Activations::kInt8;
  const double amplification = shape.IsMixture() ? kMixture : rounds ? kLlmInt8 : 1;
  return {.dtype = workload::ActivationDtype(format, storage.activations),
          .reduction = shape.base.d_ff,
          .roundings = 8 * shape.base.layers,
          .amplification = amplification};
}

// Reads the tokens as the decoder did, if that makes a difference, and returns the last logits.
at::Tensor LogitsBy(models::EagerDecoder& decoder, const models::DecoderConfig& config, const ReadTokens& read) {
  const int64_t length = read.tokens.size(1);
  const bool differs = length > config.FixedLength().value_or(length);
  const int64_t first = differs ? read.at_once : length;
  at::Tensor logits = decoder.Append(read.tokens.narrow(1, 0, first).contiguous());
  if (first < length) logits = decoder.AppendOneByOne(read.tokens.narrow(1, first, length - first).contiguous());
  return logits.clone();
}

}  // namespace

at::Tensor ExactLogits(const LoadedModel& model, const ReadTokens& read) {
  const at::NoGradGuard no_grad;
  const models::KvCache* const attended = Attended(read.cache);
  const int64_t batch = read.tokens.size(0);
  const int64_t length = read.tokens.size(1);
  models::EagerDecoder decoder(model.weights, batch, length, models::Arithmetic::kExact, attended);
  at::Tensor logits = LogitsBy(decoder, model.weights.config, read);
  // A NaN reference would agree with a NaN result.
  TORCH_CHECK(logits.isfinite().all().item<bool>(),
              "the model's logits are not all finite, not even in fp32: its weights are broken");
  if (attended == nullptr) return logits;
  const double tolerance = RelativeTolerance(LogitTolerance(model));
  absl::Status rounding = attended->CheckRounding(decoder.cache(), length, tolerance);
  if (!rounding.ok()) {
    // As for logits (Case::rounded): three times the effect of rounding operations on these keys and values.
    constexpr double kOtherRoundings = 3;
    models::EagerDecoder rounded(model.weights, batch, length, models::Arithmetic::kRounded, attended);
    LogitsBy(rounded, model.weights.config, read);
    const double change = decoder.cache().LargestChange(rounded.cache(), length);
    rounding = attended->CheckRounding(decoder.cache(), length, std::max(tolerance, kOtherRoundings * change));
  }
  TORCH_CHECK(rounding.ok(), rounding.message());
  return logits;
}

at::Tensor RoundedLogits(const LoadedModel& model, const ReadTokens& read) {
  const at::NoGradGuard no_grad;
  models::DecoderWeights weights = model.weights;  // shares the tensors
  weights.storage.int8_cache = false;
  models::EagerDecoder decoder(weights, read.tokens.size(0), read.tokens.size(1), models::Arithmetic::kRounded,
                               Attended(read.cache));
  return LogitsBy(decoder, model.weights.config, read);
}

SharedSteps::SharedSteps(std::shared_ptr<ranks::Group> group, LoadWhole load_whole)
    : group_(std::move(group)),
      load_whole_(std::move(load_whole)),
      hooks_(models::Parallel::Make(models::ParallelKind::kTensor, *group_, 0)) {}

void SharedSteps::Run(const std::function<void()>& step) {
  models::Traffic& traffic = hooks_->traffic();
  traffic.Restart(traffic.exchanges());
  step();
  if (traffic.exchanges()) sent_bytes_ = traffic.SentBytes();
}

const models::ParallelTimes& SharedSteps::MeasuredTimes(const std::function<void()>& step) {
  const at::NoGradGuard no_grad;
  const auto counted = [&] { Run(step); };
  timing::CpuClock clock;
  if (!times_) times_ = models::MeasureTimes(hooks_->traffic(), clock, counted, /*seconds=*/1);
  return *times_;
}

namespace {

// A cache in 8 bits with the heads of all ranks.
std::optional<models::KvCache> WithAllHeads(const models::KvCache* own, ranks::Group& group) {
  constexpr int64_t kHeads = 2;  // their dimension
  if (Attended(own) == nullptr) return std::nullopt;
  models::KvCache all = *own;
  for (at::Tensor* const tensor : {&all.keys, &all.values, &all.key_scales, &all.value_scales}) {
    *tensor = models::JoinedParts(group, *tensor, kHeads);
  }
  return all;
}

}  // namespace

const at::Tensor& SharedSteps::Logits(const LoadedModel& model, const ReadTokens& read) {
  if (logits_.defined()) return logits_;
  const at::NoGradGuard no_grad;
  const int64_t batch = read.tokens.size(0);
  const std::optional<models::KvCache> cache = WithAllHeads(read.cache, *group_);
  at::Tensor both = at::empty({2, batch, model.vocab()}, at::kFloat);
  if (group_->rank() == 0) {
    const absl::StatusOr<std::shared_ptr<LoadedModel>> whole = load_whole_();
    TORCH_CHECK(whole.ok(), whole.status().message());
    const ReadTokens all{read.tokens, read.at_once, cache ? &*cache : nullptr};
    both = at::stack({ExactLogits(**whole, all), RoundedLogits(**whole, all)});
  }
  group_->Broadcast(both, 0);
  const models::Storage& storage = model.weights.storage;
  // Vectors in 8 bits have other scales where ranks divide them.
  if (storage.format != WeightFormat::kLlmInt8 && storage.activations != workload::Activations::kInt8) {
    models::EagerDecoder parts(model.weights, batch, read.tokens.size(1), models::Arithmetic::kExact,
                               Attended(read.cache));
    parts.SumBy(*hooks_);
    Tolerance tolerance = LogitTolerance(model);
    tolerance.dtype = workload::Dtype::kFp32;
    const absl::Status same =
        CompareTensors(LogitsBy(parts, model.weights.config, read), both[0], tolerance, "sum of the ranks in fp32");
    TORCH_CHECK(same.ok(), same.message());
  }
  return logits_ = both;
}

at::Tensor ExactLogits(const LoadedDecoder& loaded, const ReadTokens& read) {
  return loaded.shared == nullptr ? ExactLogits(*loaded.model, read) : loaded.shared->Logits(*loaded.model, read)[0];
}

at::Tensor RoundedLogits(const LoadedDecoder& loaded, const ReadTokens& read) {
  return loaded.shared == nullptr ? RoundedLogits(*loaded.model, read) : loaded.shared->Logits(*loaded.model, read)[1];
}

workload::Cost CostOfRanks(const Point& at, const workload::Cost& cost) {
  if (ParallelAt(at) == nullptr) return cost;
  return ParallelCost(at, {.cost = cost, .peak = cost.resident_bytes});
}

void DescribeSharedStep(const Point& at, const LoadedDecoder& loaded, double tokens, const std::function<void()>& step,
                        Case& built) {
  const std::shared_ptr<SharedSteps> shared = loaded.shared;
  if (shared == nullptr) return;
  const workload::Decoder whole = ConfigAt(at)->shape;
  built.parameters = whole.Parameters();
  // Each sum rounds the ranks' terms once more.
  built.tolerance.reduction = whole.base.d_ff;
  built.tolerance.roundings += 2 * whole.base.layers;
  // Our own step of one token adds up in fp32.
  const models::Storage& storage = loaded.model->weights.storage;
  const bool is_fp32 = at.Text("impl") == "native" && at.Has("depth");
  const double element = workload::ElementBytes(
      is_fp32 ? workload::Dtype::kFp32 : workload::ActivationDtype(storage.format, storage.activations));
  DescribeExchanges(at, {.summed = 2 * whole.base.layers * tokens * whole.base.d_model * element},
                    {.sent_bytes = [shared] { return shared->SentBytes(); },
                     .times = [shared, step]() -> const models::ParallelTimes& { return shared->MeasuredTimes(step); }},
                    built);
}

void DescribeAttention(std::optional<int64_t> backend, Case& built) {
  if (backend) built.AddFigure("attention_backend", static_cast<double>(*backend));
}

void DescribeOutliers(const Point& at, std::function<std::optional<double>()> columns, Case& built) {
  if (FormatAt(at) != WeightFormat::kLlmInt8) return;
  built.figures.emplace_back("outlier_columns", [columns = std::move(columns)] {
    return columns().value_or(std::numeric_limits<double>::quiet_NaN());
  });
}

void DescribeModel(const LoadedModel& model, Case& built) {
  built.parameters = model.weights.config.shape.Parameters();
  built.shared_bytes = model.unseen_bytes;
  built.tolerance = LogitTolerance(model);
  constexpr double kMilliseconds = 1e3;
  built.AddFigure("model_bytes", static_cast<double>(model.weights.nbytes()));
  built.AddFigure("load_ms", model.load_seconds * kMilliseconds);
}

}  // namespace roofbench
