// SPDX-License-Identifier: Apache-2.0
// The two halves of a generation alone: a prompt into an empty cache, and one token of each sequence at a depth of the
// cache. Its phases are the parts of a step, or in precision:llm_int8 the stages of its products.

#include <algorithm>
#include <array>
#include <memory>

#include "benchmarks/macro/language_model.h"
#include "lib/observe/ranges.h"

namespace roofbench {
namespace {

using models::Int8Stage;
using workload::DecoderComponent;
using workload::kDecoderComponentNames;

// Reports the parts of a step, or the stages of LLM.int8(), to a marker. That costs about a hundred clock reads, and
// for LLM.int8() up to three for each part of a product. On a GPU each would be an event of microseconds, so only
// processors report parts, and the stages come from additional steps.
class StepPhases {
 public:
  // `waits`: the step's threads or ranks wait for each other.
  StepPhases(const Point& at, const Device& device, bool waits)
      : stages_(at.Text("precision") == Name(workload::WeightFormat::kLlmInt8) && at.Text("impl") != "graph"),
        parts_(!stages_ && device.gpu() == nullptr && at.Text("impl") != "compiled"),
        beside_(stages_ && device.gpu() != nullptr) {
    if (stages_) {
      const auto all = models::kInt8StageNames;
      const bool fused = IsOwn(at);
      names_.assign(all.begin(), fused ? all.begin() + models::kFusedInt8Stages : all.end());
    }
    for (std::size_t part = 0; parts_ && part < phase_of_.size(); ++part) {
      if (part == static_cast<std::size_t>(DecoderComponent::kWait) && !waits) continue;
      if (part == static_cast<std::size_t>(DecoderComponent::kRouter) && !StoredAt(at).shape.IsMixture()) continue;
      phase_of_[part] = static_cast<int>(names_.size());
      names_.emplace_back(kDecoderComponentNames[part]);
    }
  }

  void Describe(Case& built) const {
    built.phases = names_;
    built.marks_beside = beside_;
  }

  template <typename Step>
  void Run(models::DecoderModel& decoder, timing::PhaseMarker& marker, Step step) const {
    if (stages_) decoder.ObserveStages([&](Int8Stage stage) { marker.End(static_cast<int>(stage)); });
    if (parts_) {
      decoder.ObserveComponents([&](DecoderComponent part) { marker.End(phase_of_[static_cast<std::size_t>(part)]); });
    }
    step();
    if (stages_) {
      decoder.ObserveStages(nullptr);
      marker.End(static_cast<int>(Int8Stage::kOther));
    }
    if (parts_) decoder.ObserveComponents(nullptr);
  }

 private:
  bool stages_;
  bool parts_;
  bool beside_;
  std::vector<std::string> names_;
  std::array<int, kDecoderComponentNames.size()> phase_of_{};
};

// The formats with products in 8 bits on both sides.
const AxisList kRounding = {"int8", "int4"};

GridAxes Grid(const AxisList& impl, const AxisList& model, const AxisList& precision, GridAxes more) {
  more.insert(more.end(), {{"impl", impl}, {"model", model}, {"precision", precision}});
  return more;
}

struct Prefill {
  LoadedDecoder loaded;
  StepPhases phases;
  at::Tensor tokens;  // [batch, prompt]
  at::Tensor y = {};  // the logits

  ReadTokens Read() const { return {tokens, tokens.size(1), loaded.decoder->keys_and_values()}; }

  void Step() {
    loaded.decoder->Truncate(0);
    y = loaded.decoder->Append(tokens);
  }

  void Run(timing::PhaseMarker& marker) {
    const observe::Range range("prefill");
    phases.Run(*loaded.decoder, marker, [this] { loaded.Run([this] { Step(); }); });
  }
};

const Registration kPrefill =
    ModelFamily<Prefill>("prefill", "reads a prompt: from an empty cache to the logits of its last token")
        .Axes(ModelAxes())
        .Size("prompt", "tokens of a prompt")
        .Axes(TensorParallelAxes())
        .Work([](const Point& at) {
          return CostOfRanks(at,
                             StoredAt(at).PrefillCost(at.Number("batch"), at.Number("prompt"), at.Number("prompt")));
        })
        .Operands([](const Point& at, Inputs& in) -> absl::StatusOr<Prefill> {
          auto loaded = DecoderAt(at, at.Int("prompt"), in);
          if (!loaded.ok()) return loaded.status();
          const at::Tensor tokens = in.Integers(0, loaded->model->vocab(), {at.Int("batch"), at.Int("prompt")});
          return Prefill{*std::move(loaded), StepPhases(at, in.device(), /*waits=*/ParallelAt(at) != nullptr), tokens};
        })
        .Reference([](const Prefill& o) { return ExactLogits(o.loaded, o.Read()); })
        .Rounded([](const Prefill& o) { return RoundedLogits(o.loaded, o.Read()); })
        .Details([](const Point& at, const std::shared_ptr<Prefill>& o, Case& built) {
          DescribeModel(*o->loaded.model, built);
          DescribeOutliers(
              at, [o] { return o->loaded.decoder->OutlierColumns(); }, built);
          built.AddCount("tile_products", [o] { return o->loaded.decoder->TileProducts(); });
          built.AddCount("library_kernels", [o] { return o->loaded.decoder->LibraryKernels(); });
          o->phases.Describe(built);
          built.model = {.prompt_tokens = at.Number("batch") * at.Number("prompt")};
          DescribeSharedStep(
              at, o->loaded, at.Number("batch") * at.Number("prompt"), [o] { o->Step(); }, built);
        })
        .Impl("fastest", OnCpu([](Prefill& o, timing::PhaseMarker& marker) { o.Run(marker); }))
        .Limits(kFastestLimits)
        .When(SupportsFastest)
        .Impl("compiled", OnCpu([](Prefill& o, timing::PhaseMarker& marker) { o.Run(marker); }))
        .Limits(kCompiledLimits)
        .When(SupportsCompiled)
        .Points(Suite::kStandard, Grid({"eager", "native"}, {"llama3_1b_4th"},
                                       {"fp32", "bf16", "int8", "int4", "llm_int8"}, {{"prompt", {128, 512}}}))
        .Points(Suite::kStandard, Grid({"eager"}, {"llama3_1b_4th"}, {"fp16", "fp8"}, {{"prompt", {128}}}))
        .Points(Suite::kStandard, Grid({"native"}, {"llama3_1b_4th"}, {"bf16", "int8"},
                                       {{"prompt", {128}}, {kParallelAxis, {"tensor"}}, {kRanksAxis, {2}}}))
        .Points(Suite::kStandard, Grid({"eager", "native"}, {"llama3_1b_4th"}, kRounding,
                                       {{"activations", {"int8"}}, {"prompt", {128, 512}}}))
        .Points(Suite::kFull, Grid({"eager", "native"}, {"llama3_1b", "llama2_7b"},
                                   {"bf16", "int8", "int4", "llm_int8"}, {{"prompt", {512, 2048}}}))
        .Points(Suite::kFull, Grid({"native"}, {"llama3_1b", "llama2_7b"}, kRounding,
                                   {{"activations", {"int8"}}, {"prompt", {512, 2048}}}))
        .Growth("prompt", 1);

// Fills the cache with random keys and values instead of reading a prompt. The result is checked at a depth of up to
// 16, for which the reference reads tokens.
struct Decode {
  LoadedDecoder loaded;
  StepPhases phases;
  int64_t depth;
  at::Tensor tokens;  // [batch, checked depth + 1]
  at::Tensor last;    // [batch], the last of them

  void FillCache() const {
    constexpr uint64_t kSeed = 7;
    loaded.decoder->FillRandom(depth, kSeed);
  }

  void Step() const {
    loaded.decoder->Truncate(depth);
    loaded.decoder->AppendOne(last);
  }

  void Run(timing::PhaseMarker& marker) {
    const observe::Range range("decode");
    phases.Run(*loaded.decoder, marker, [this] { loaded.Run([this] { Step(); }); });
  }

  at::Tensor Logits() const {
    loaded.decoder->Truncate(0);
    loaded.decoder->Append(tokens.narrow(1, 0, tokens.size(1) - 1).contiguous());
    return loaded.decoder->AppendOne(last).clone();
  }

  // With the keys and values of the checked tokens. Ranks ask for them once, together.
  ReadTokens Read() const {
    if (loaded.shared == nullptr || !loaded.shared->HasLogits()) Logits();
    return {tokens, tokens.size(1) - 1, loaded.decoder->keys_and_values()};
  }
};

absl::StatusOr<Decode> DecodeAt(const Point& at, Inputs& in) {
  const int64_t depth = at.Int("depth");
  auto loaded = DecoderAt(at, depth + 1, in);
  if (!loaded.ok()) return loaded.status();
  const int64_t checked = std::min<int64_t>(depth, 16);
  const at::Tensor tokens = in.Integers(0, loaded->model->vocab(), {at.Int("batch"), checked + 1});
  Decode decode{
      .loaded = *std::move(loaded),
      .phases = StepPhases(at, in.device(), /*waits=*/at.Text("impl") == "native" || ParallelAt(at) != nullptr),
      .depth = depth,
      .tokens = tokens,
      .last = tokens.select(1, checked).contiguous()};
  decode.FillCache();
  return decode;
}

const Registration kDecode =
    TokenFamily<Decode>("decode", "one more token of each sequence, at a depth of the cache")
        .Axes(ModelAxes())
        .Size("depth", "tokens in the cache before")
        .Axes(TensorParallelAxes())
        .Work([](const Point& at) {
          return CostOfRanks(at,
                             StoredAt(at).DecodeCost(at.Number("batch"), at.Number("depth"), at.Number("depth") + 1));
        })
        .Operands(DecodeAt)
        .Result([](const Decode& o) { return o.Logits(); })
        .Reference([](const Decode& o) { return ExactLogits(o.loaded, o.Read()); })
        .Rounded([](const Decode& o) { return RoundedLogits(o.loaded, o.Read()); })
        .Details([](const Point& at, const std::shared_ptr<Decode>& o, Case& built) {
          DescribeModel(*o->loaded.model, built);
          DescribeAttention(o->loaded.decoder->AttentionBackend(o->depth + 1), built);
          DescribeOutliers(
              at, [o] { return o->loaded.decoder->OutlierColumns(); }, built);
          built.AddCount("tile_products", [o] { return o->loaded.decoder->TileProducts(); });
          o->phases.Describe(built);
          built.model = {.tokens = at.Number("batch"),
                         .token_bytes = StoredAt(at.With(kParallelAxis, kNotParallel))
                                            .DecodeReadBytes(at.Number("batch"), at.Number("depth"), 2)};
          DescribeSharedStep(
              at, o->loaded, at.Number("batch"), [o] { o->Step(); }, built);
        })
        .Impl("compiled", OnCpu([](Decode& o, timing::PhaseMarker& marker) { o.Run(marker); }))
        .Limits(kCompiledLimits)
        .When(SupportsCompiled)
        .Points(Suite::kStandard, Grid({"eager", "native"}, {"llama3_1b"}, {"bf16", "int8"}, {{"depth", {128}}}))
        .Points(Suite::kStandard, Grid({"eager"}, {"llama3_1b"}, {"fp8"}, {{"depth", {128}}}))
        .Points(Suite::kStandard, Grid({"native"}, {"llama3_1b"}, {"bf16", "int8", "int4"},
                                       {{"depth", {128}}, {kParallelAxis, {"tensor"}}, {kRanksAxis, {2}}}))
        .Points(Suite::kStandard, Grid({"native"}, {"llama3_1b"}, {"int4", "llm_int8"}, {{"depth", {128}}}))
        .Points(Suite::kStandard,
                Grid({"native"}, {"llama3_1b"}, kRounding, {{"activations", {"int8"}}, {"depth", {128}}}))
        .Points(Suite::kFull,
                Grid({"eager", "graph", "compiled"}, {"llama3_1b"}, {"bf16", "int8"}, {{"depth", {128, 2048}}}))
        .Points(Suite::kFull, Grid({"native"}, {"llama3_1b"}, {"bf16", "int8"},
                                   {{"batch", {1, 8}}, {"depth", {1, 512, 2048, 8192, 32768}}}))
        .Points(Suite::kFull, Grid({"native"}, {"llama3_1b"}, {"bf16", "int8"},
                                   {{"kv_cache", {"int8"}}, {"batch", {1, 8}}, {"depth", {8192, 32768}}}));

}  // namespace
}  // namespace roofbench
