#include "benchmarks/macro/language_model.h"

#include <ATen/core/grad_mode.h>

#include <chrono>
#include <map>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/implementations.h"
#include "lib/harness/gpu.h"
#include "lib/harness/shared_operands.h"
#include "lib/models/checkpoint.h"
#include "lib/models/eager_decoder.h"
#include "lib/workload/decoder_presets.h"

ABSL_FLAG(std::string, checkpoint, "",
          "folder of a Hugging Face checkpoint (Llama or Mixtral), for the cases of model:checkpoint and complete");

namespace roofbench {
namespace {

using workload::WeightFormat;

constexpr char kCheckpoint[] = "checkpoint";
constexpr uint64_t kWeightSeed = 2024;

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const workload::DecoderPreset& preset : workload::DecoderPresets()) names.emplace_back(preset.name);
  names.emplace_back(kCheckpoint);
  return names;
}

std::vector<std::string> FormatNames() {
  std::vector<std::string> names;
  for (const WeightFormat format : workload::kWeightFormats) names.emplace_back(Name(format));
  return names;
}

// Opened once: its headers say what the cases of model:checkpoint are.
const absl::StatusOr<models::Checkpoint>& TheCheckpoint() {
  static const auto* checkpoint = [] {
    const std::string folder = absl::GetFlag(FLAGS_checkpoint);
    return new absl::StatusOr<models::Checkpoint>(folder.empty()
                                                      ? absl::StatusOr<models::Checkpoint>(absl::UnimplementedError(
                                                            "a checkpoint needs the flag --checkpoint=FOLDER"))
                                                      : models::Checkpoint::Open(folder));
  }();
  return *checkpoint;
}

models::Storage StorageAt(const Point& at) {
  models::Storage storage = models::Storage::Default(*workload::ParseWeightFormat(at.Text("precision")));
  storage.group = at.Int("group");
  if (at.Text("head") == "16bit") storage.skipped.insert(models::LinearRole::kHead);
  if (at.Text("head") == "quantised") storage.skipped.erase(models::LinearRole::kHead);
  storage.outlier_threshold = at.Text("outliers") == "none" ? 0 : at.Number("outliers");
  return storage;
}

}  // namespace

absl::StatusOr<models::DecoderConfig> ConfigAt(const Point& at) {
  if (at.Text("model") != kCheckpoint) return models::ConfigOf(*workload::FindDecoderPreset(at.Text("model")));
  if (!TheCheckpoint().ok()) return TheCheckpoint().status();
  return TheCheckpoint()->config();
}

Family WithStorageAxes(Family family) {
  family.Axis({.name = "precision", .choices = FormatNames(), .doc = "of the linear layers' weights"})
      .Axis({.name = "group",
             .choices = {"32", "64", "128", "256"},
             .default_value = "64",
             .doc = "weights of int4 that share a scale"})
      .Axis({.name = "head",
             .choices = {"default", "16bit", "quantised"},
             .default_value = "default",
             .doc = "of the output head; by default llm_int8 leaves it in 16 bits"})
      .Axis({.name = "outliers",
             .choices = {"6", "none"},
             .default_value = "6",
             .doc = "llm_int8: activations from this size on are outliers"});
  return family;
}

Family LanguageModelFamily(std::string name, std::string doc) {
  Family family(std::move(name), std::move(doc));
  family
      .Axis({.name = "impl",
             .choices = {"native", "eager", "graph"},
             .default_value = "native",
             .doc = "native: our kernels; eager: LibTorch's operations; graph: eager, with a token as a CUDA graph"})
      .Axis({.name = "model", .choices = ModelNames(), .doc = "random weights of this shape, or --checkpoint"});
  return WithStorageAxes(std::move(family))
      .Axis({.name = "batch", .default_value = "1", .doc = "sequences side by side"})
      .DefaultCache("warm");
}

absl::Status LanguageModelSupports(const Point& at, const Device& device) {
  const absl::StatusOr<models::DecoderConfig> config = ConfigAt(at);
  if (!config.ok()) return config.status();
  if (at.Text("impl") == "graph") {
    if (config->shape.IsMixture() || at.Text("precision") == Name(WeightFormat::kLlmInt8)) {
      return absl::UnimplementedError(
          "the host chooses experts, and columns with outliers, between launches, which no graph can record; "
          "impl:eager runs them");
    }
  }
  const WeightFormat format = *workload::ParseWeightFormat(at.Text("precision"));
  absl::Status status = models::StoredMatrix::CheckDevice(format, device.torch_device());
  return status.ok() ? ImplementationSupports(at, device) : status;
}

workload::StoredDecoder StoredAt(const Point& at) {
  const absl::StatusOr<models::DecoderConfig> config = ConfigAt(at);
  // Without a checkpoint the case is refused later, by LanguageModelSupports: a name can be listed and planned.
  return StorageAt(at).Of(config.ok() ? config->shape : workload::FindDecoderPreset("tiny_llama")->shape);
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> ModelAt(const Point& at, const Device& device) {
  std::string key;
  for (const char* axis : {"model", "precision", "group", "head", "outliers"})
    absl::StrAppend(&key, at.Text(axis), "/");
  const auto make = [&]() -> absl::StatusOr<SharedOperands::Made> {
    const absl::StatusOr<models::DecoderConfig> config = ConfigAt(at);
    if (!config.ok()) return config.status();
    const double start = Seconds();
    absl::StatusOr<models::DecoderWeights> weights = at.Text("model") == kCheckpoint
                                                         ? models::LoadWeights(*TheCheckpoint(), StorageAt(at))
                                                         : models::RandomWeights(*config, StorageAt(at), kWeightSeed);
    if (!weights.ok()) return weights.status();
    if (absl::Status moved = weights->MoveTo(device.torch_device()); !moved.ok()) return moved;
    auto loaded = std::make_shared<LoadedModel>();
    loaded->weights = *std::move(weights);
    loaded->load_seconds = Seconds() - start;
    const auto bytes = static_cast<double>(loaded->weights.nbytes());
    return SharedOperands::Made{std::shared_ptr<const void>(std::move(loaded)), bytes};
  };
  const absl::StatusOr<SharedOperands::Made> made = SharedOperands::Get(at.family(), key, make);
  if (!made.ok()) return made.status();
  // Tensors are shared, not copied.
  auto loaded = std::make_shared<LoadedModel>(*std::static_pointer_cast<const LoadedModel>(made->value));
  loaded->unseen_bytes = made->unseen_bytes;
  return loaded;
}

namespace {

// LibTorch's operations, with the appending of one token recorded as a CUDA graph.
class GraphDecoder final : public models::Decoder {
 public:
  GraphDecoder(const models::DecoderWeights& weights, int64_t batch, int64_t capacity, Gpu& gpu)
      : eager_(weights, batch, capacity), gpu_(gpu) {}

  const at::Tensor& Append(const at::Tensor& tokens) override { return eager_.Append(tokens); }
  const at::Tensor& AppendOne(const int64_t* tokens) override {
    eager_.SetToken(tokens);
    if (graph_ == nullptr) {
      graph_ = gpu_.Record([this](const std::function<void()>&) { eager_.AppendSet(); });
      logits_ = eager_.CountSet();
    } else {
      eager_.CountSet();
    }
    graph_->Replay([] {});
    return logits_;
  }
  int64_t length() const override { return eager_.length(); }
  void Truncate(int64_t length) override { eager_.Truncate(length); }
  void FillRandom(int64_t length, uint64_t seed) override { eager_.FillRandom(length, seed); }
  void ObserveParts(models::PartMarker /*marker*/) override {}
  void ObserveStages(models::LlmInt8Marker /*marker*/) override {}

 private:
  models::EagerDecoder eager_;
  Gpu& gpu_;
  std::unique_ptr<GpuGraph> graph_;
  at::Tensor logits_;  // that the graph leaves; a prompt's are elsewhere
};

}  // namespace

absl::StatusOr<std::shared_ptr<models::Decoder>> DecoderAt(const Point& at, const LoadedModel& model, int64_t capacity,
                                                           const Device& device) {
  if (at.Text("impl") == "graph") {
    return std::make_shared<GraphDecoder>(model.weights, at.Int("batch"), capacity, *device.gpu());
  }
  absl::StatusOr<std::unique_ptr<models::Decoder>> made =
      models::MakeDecoder(at.Text("impl"), model.weights, at.Int("batch"), capacity, device.threads());
  if (!made.ok()) return made.status();
  return std::shared_ptr<models::Decoder>(*std::move(made));
}

at::Tensor ExactLogits(const LoadedModel& model, const at::Tensor& tokens) {
  const at::NoGradGuard no_grad;
  models::EagerDecoder exact(model.weights, tokens.size(0), tokens.size(1), models::Arithmetic::kExact);
  return exact.Append(tokens.contiguous()).clone();
}

Tolerance LogitTolerance(const LoadedModel& model) {
  const workload::Decoder& shape = model.weights.config.shape;
  const WeightFormat format = model.weights.storage.format;
  // A layer rounds at about eight places. LLM.int8() rounds activations to 8 bits, where a last bit of theirs may make
  // a step of the other. The worst logits of nine steps came to 0.63 of the bound of bf16 over 60 seeds of two layers,
  // and to 2.7 over 8 of four layers of Llama-3.2-1B, with a vocabulary of 128,256.
  constexpr double kLlmInt8 = 4;
  // Near a tie a last bit decides which expert a token takes, and what follows is another token's: nine of ten seeds of
  // two layers stayed below 0.5 in bf16 and in LLM.int8(), the others came to 9.8 at most (100 to 200 seeds each,
  // 2026-11-21).
  constexpr double kMixture = 10;
  const double amplification = shape.IsMixture() ? kMixture : format == WeightFormat::kLlmInt8 ? kLlmInt8 : 1;
  return {.dtype = workload::ActivationDtype(format),
          .reduction = shape.base.d_ff,
          .roundings = 8 * shape.base.layers,
          .amplification = amplification};
}

void DescribeModel(const LoadedModel& model, Case& built) {
  built.parameters = model.weights.config.shape.Parameters();
  built.shared_bytes = model.unseen_bytes;
  built.tolerance = LogitTolerance(model);
  constexpr double kMilliseconds = 1e3;
  built.figures.emplace_back("model_bytes", [bytes = static_cast<double>(model.weights.nbytes())] { return bytes; });
  built.figures.emplace_back("load_ms", [ms = model.load_seconds * kMilliseconds] { return ms; });
}

}  // namespace roofbench
