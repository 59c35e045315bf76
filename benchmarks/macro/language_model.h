// SPDX-License-Identifier: Apache-2.0
// Axes, models and figures of the token generation families.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmarks/macro/parallel.h"
#include "lib/models/decoding/decoder_model.h"
#include "lib/suite/family_of.h"
#include "lib/workload/models/decoder.h"

namespace roofbench {

// precision, group, head, keep, outliers, activations and kv_cache: the storage of weights, keys and values, and the
// type of activations.
std::vector<AxisSpec> StorageAxes();
// model, the storage axes, and batch.
std::vector<AxisSpec> ModelAxes();

// The configuration of the point's model, or why --checkpoint or --draft_checkpoint does not provide it.
absl::StatusOr<models::DecoderConfig> ConfigAt(const Point& at);

// Whether the device supports the point's model, and --checkpoint provides it.
absl::Status SupportsModel(const Point& at, const Device& device);

// Our kernels in impl:eager on a GPU: LibTorch has no kernel for few vectors and int8 weights that reads them at memory
// bandwidth.
std::vector<std::string_view> KernelsOfEager(const Point& at);

// Whether the point's implementation is our decoder: impl:native, or impl:fastest.
bool IsOwn(const Point& at);

// Whether impl:fastest has something to choose that impl:native has not.
inline constexpr char kFastestLimits[] =
    "native, but with LibTorch's products in bf16 and attention of a prompt where those were measured to be faster";
absl::Status SupportsFastest(const Point& at, const Device& device);

// Whether a CUDA graph can record AppendOne.
absl::Status SupportsRecordedTokens(const Point& at);

// Whether Inductor compiles the point's model, and what it compiles.
inline constexpr char kCompiledLimits[] =
    "compiled for the length of a prompt, and for single tokens, over a whole cache";
absl::Status SupportsCompiled(const Point& at, const Device& device);

// The closed forms of the point's model, or of the part of it that each rank has.
workload::StoredDecoder StoredAt(const Point& at);

// Weights in the point's format, on the device: random, or those of --checkpoint.
struct LoadedModel {
  models::DecoderWeights weights;
  double load_seconds = 0;
  double unseen_bytes = 0;  // see OperandCache

  int64_t vocab() const { return static_cast<int64_t>(weights.config.shape.base.vocab); }
};

struct ReadTokens;

// A rank's part of a step, of a model that all ranks of a group divide (parallel:tensor).
class SharedSteps {
 public:
  using LoadWhole = std::function<absl::StatusOr<std::shared_ptr<LoadedModel>>()>;
  SharedSteps(std::shared_ptr<ranks::Group> group, LoadWhole load_whole);

  models::ForwardHooks& hooks() const { return *hooks_; }
  void Run(const std::function<void()>& step);
  // Sent in the last step.
  double SentBytes() const { return sent_bytes_; }
  // Measured when first asked for, on all ranks.
  const models::ParallelTimes& MeasuredTimes(const std::function<void()>& step);

  // The exact and the rounded logits [2, batch, vocab] of one process, rank 0's, with the whole model. All ranks make
  // the first call together, and throw unless their parts, `model`, have the same logits in fp32: 16 bits may hide a
  // fault of a mixture, whose tokens may take other experts.
  const at::Tensor& Logits(const LoadedModel& model, const ReadTokens& read);
  bool HasLogits() const { return logits_.defined(); }

 private:
  const std::shared_ptr<ranks::Group> group_;
  const LoadWhole load_whole_;
  const std::unique_ptr<models::Parallel> hooks_;
  double sent_bytes_ = 0;
  std::optional<models::ParallelTimes> times_;
  at::Tensor logits_;
};

struct LoadedDecoder {
  std::shared_ptr<const LoadedModel> model;
  std::shared_ptr<SharedSteps> shared = {};            // nullptr: one process runs the steps
  std::unique_ptr<models::DecoderModel> decoder = {};  // by the point's implementation

  template <typename Step>
  void Run(Step step) const {
    shared == nullptr ? step() : shared->Run(step);
  }
};

// With a cache of `capacity` tokens for each sequence; AppendAll reads `piece` tokens at once. impl:compiled: compiled
// for the lengths of the point's prompt and of its steps.
absl::StatusOr<LoadedDecoder> DecoderAt(const Point& at, int64_t capacity, Inputs& in, int64_t piece = 1);

// The tokens that a decoder has read.
struct ReadTokens {
  at::Tensor tokens;                       // [batch, n]
  int64_t at_once = 0;                     // the first of them; the others followed one by one
  const models::KvCache* cache = nullptr;  // of the decoder; nullptr: unknown
};

// The logits after these tokens in fp32 arithmetic on the dequantized weights. A cache in 8 bits is checked, and the
// logits are those for its keys and values.
at::Tensor ExactLogits(const LoadedModel& model, const ReadTokens& read);
// The same with the results of operations rounded to the model's format: the expected error of a correct decoder. With
// an unknown cache in 8 bits, the error includes the effect of all its roundings.
at::Tensor RoundedLogits(const LoadedModel& model, const ReadTokens& read);

// The same of a decoder that ranks may share.
at::Tensor ExactLogits(const LoadedDecoder& loaded, const ReadTokens& read);
at::Tensor RoundedLogits(const LoadedDecoder& loaded, const ReadTokens& read);

// The work of all ranks, from that of one with its part of the model; the same if there is one process.
workload::Cost CostOfRanks(const Point& at, const workload::Cost& cost);

// The figures of a step of so many tokens, and its tolerance, if ranks share it. `step` runs it.
void DescribeSharedStep(const Point& at, const LoadedDecoder& loaded, double tokens, const std::function<void()>& step,
                        Case& built);

// Figures and the tolerance of every case with a model.
void DescribeModel(const LoadedModel& model, Case& built);
// LibTorch's attention kernel, if LibTorch runs attention.
void DescribeAttention(std::optional<int64_t> backend, Case& built);

// The outlier columns of precision:llm_int8: DecoderModel::OutlierColumns after the samples.
void DescribeOutliers(const Point& at, std::function<std::optional<double>()> columns, Case& built);

// A family whose operands have a decoder (`LoadedDecoder loaded`) and a step (`Run(PhaseMarker&)`). `model_at` gives a
// point with the axes of a model, where the family's own points have not all of them.
template <typename O>
FamilyOf<O> ModelFamily(std::string name, std::string doc, const PointFunction& model_at = std::identity()) {
  const auto step = [](O& operands, timing::PhaseMarker& marker) { operands.Run(marker); };
  return FamilyOf<O>(std::move(name), std::move(doc))
      .DefaultCache(kWarm)
      .Supports([=](const Point& at, const Device& device) { return SupportsModel(model_at(at), device); })
      .Impl("native", OnCpu(step))
      .Limits("impl:eager runs on GPUs too")
      .Impl("eager", step)
      .LaunchesAt([=](const Point& at) { return KernelsOfEager(model_at(at)); })
      .DefaultImpl("native");
}

// A ModelFamily whose steps append single tokens.
template <typename O>
FamilyOf<O> TokenFamily(std::string name, std::string doc, const PointFunction& model_at = std::identity()) {
  return ModelFamily<O>(std::move(name), std::move(doc), model_at)
      .Impl("graph", OnGpu({}, [](O& operands, timing::PhaseMarker& marker) { operands.Run(marker); }))
      .Limits("each token is one CUDA graph; impl:eager is the same work, launched one by one")
      .LaunchesAt([=](const Point& at) { return KernelsOfEager(model_at(at)); })
      .When([=](const Point& at, const Device&) { return SupportsRecordedTokens(model_at(at)); });
}

}  // namespace roofbench
