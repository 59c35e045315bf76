// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/generation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/macro/given.h"
#include "lib/device/gpu.h"
#include "lib/observe/ranges.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

enum Phase : std::size_t { kPrefill, kDecode };

// By events on the stream, as the host runs ahead of the tokens.
class EventTimes final : public models::TokenTimes {
 public:
  EventTimes(std::unique_ptr<timing::EventQueue> queue, int64_t most) : queue_(std::move(queue)) {
    queue_->Reserve(static_cast<std::size_t>(most));
  }
  void Restart() override { marked_ = 0; }
  void Mark() override { queue_->Record(marked_++); }
  void Gaps(std::vector<double>& seconds) const override {
    for (std::size_t i = 1; i < marked_; ++i) seconds.push_back(queue_->SecondsBetween(i - 1, i));
  }

 private:
  const std::unique_ptr<timing::EventQueue> queue_;
  std::size_t marked_ = 0;
};

std::shared_ptr<models::TokenTimes> TimesOf(Gpu* gpu, int64_t most) {
  return gpu == nullptr ? nullptr : std::make_shared<EventTimes>(gpu->NewEventQueue(), most);
}

}  // namespace

void GenerationCase::Run(timing::PhaseMarker& marker) {
  // The range ends before its phase, which may be a range too.
  std::optional<observe::Range> range("prefill");
  generation.Run(
      [&] {
        range.reset();
        marker.End(kPrefill);
        library_kernels = generation.decoder().LibraryKernels();
        if (generation.most_new() > 1) range.emplace("decode");
      },
      marker.Measurement());
  range.reset();
  if (generation.steps() > 1) marker.End(kDecode);
}

std::vector<AxisSpec> ChoiceAxes() {
  return {
      {.name = "new", .doc = "tokens to generate, at most"},
      {.name = "sampling",
       .choices = {"greedy", "top_k", "given"},
       .default_value = "greedy",
       .doc = "top_k: of the 200 most likely, at temperature 0.8; given: by --temperature, --top_k, --top_p, --min_p, "
              "--repetition_penalty and --sampling_seed, on the host"}};
}

namespace {

// The prompts, and their lengths if they are ragged.
struct Given {
  at::Tensor ids;
  std::vector<int64_t> lengths;  // empty: ids are [batch, tokens]
};

Given InTurn(const std::vector<models::TokenIds>& prompts, const at::Device& device) {
  Given given;
  models::TokenIds ids;
  bool is_ragged = false;
  for (const models::TokenIds& prompt : prompts) {
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    given.lengths.push_back(static_cast<int64_t>(prompt.size()));
    is_ragged = is_ragged || given.lengths.back() != given.lengths.front();
  }
  given.ids = at::tensor(ids, at::kLong).to(device);
  if (is_ragged) return given;
  return {.ids = given.ids.view({static_cast<int64_t>(prompts.size()), given.lengths.front()}), .lengths = {}};
}

at::Tensor RandomPrompts(const Point& at, int64_t vocab, bool one, Inputs& in) {
  const at::Tensor ids = in.Integers(0, vocab, {one ? 1 : at.Int("batch"), at.Int("prompt")});
  return ids.expand({at.Int("batch"), -1}).contiguous();
}

}  // namespace

absl::StatusOr<GenerationCase> GenerationAt(const Point& at, Inputs& in, const std::vector<models::TokenIds>& prompts,
                                            const TextRules& rules) {
  const int64_t capacity = at.Int("prompt") + at.Int("new");
  auto loaded = DecoderAt(at, capacity, in, rules.guesses + 1);
  if (!loaded.ok()) return loaded.status();
  absl::StatusOr<LoadedDecoder> draft = LoadedDecoder();
  // A draft reads its last guess and the token after it at once.
  if (rules.draft) draft = DecoderAt(*rules.draft, capacity, in, /*piece=*/2);
  if (!draft.ok()) return draft.status();
  const int64_t vocab = loaded->model->vocab();
  const Given given = prompts.empty() ? Given{.ids = RandomPrompts(at, vocab, rules.one_prompt, in), .lengths = {}}
                                      : InTurn(prompts, in.device().torch_device());
  const bool samples = at.Text("sampling") == "top_k";
  timing::Clock& clock = in.device().clock();
  const double start = clock.HostSeconds();
  if (given.lengths.empty()) loaded->decoder->Prepare(at.Int("batch"), at.Int("prompt"));
  for (const int64_t length : std::set(given.lengths.begin(), given.lengths.end())) loaded->decoder->Prepare(1, length);
  if (draft->decoder) draft->decoder->Prepare(1, at.Int("prompt"));
  const double prepare_seconds = clock.HostSeconds() - start;
  const std::optional<int64_t> attention = loaded->decoder->AttentionBackend(capacity - 1);
  return GenerationCase{
      loaded->model, draft->model,
      models::Generation(std::move(loaded->decoder), vocab,
                         {.prompt = given.ids,
                          .lengths = given.lengths,
                          .most_new = at.Int("new"),
                          .stop_ids = rules.stop_ids,
                          .choice = {.top_k = samples ? 200 : 1, .temperature = samples ? 0.8 : 1, .seed = 1},
                          .sampling = SamplingOf(at.Text("sampling")),
                          .beams = rules.beams,
                          .draft = {.decoder = std::move(draft->decoder), .guesses = rules.guesses},
                          .times = TimesOf(in.device().gpu(), at.Int("new"))}),
      attention, in.device().gpu() == nullptr ? std::nullopt : std::make_optional(prepare_seconds)};
}

void DescribeGeneration(const Point& at, const std::shared_ptr<GenerationCase>& generation, Case& built) {
  DescribeGeneration(at,
                     std::vector(static_cast<std::size_t>(at.Int("batch")),
                                 workload::SequenceTokens{at.Number("prompt"), at.Number("new")}),
                     generation, built);
}

void DescribeGeneration(const Point& at, const std::vector<workload::SequenceTokens>& sequences,
                        const std::shared_ptr<GenerationCase>& generation, Case& built) {
  constexpr double kMilliseconds = 1e3;
  DescribeModel(*generation->model, built);
  built.phases = {"prefill"};
  built.model = {.prompt_phase = kPrefill};
  for (const workload::SequenceTokens& one : sequences) {
    built.model.prompt_tokens += one.prompt;
    built.model.new_tokens += one.new_tokens;
  }
  DescribeAttention(generation->attention, built);
  DescribeOutliers(
      at, [generation] { return generation->generation.decoder().OutlierColumns(); }, built);
  built.AddCount("library_kernels", [generation] { return generation->library_kernels; });
  if (generation->prepare_seconds) built.AddFigure("prepare_ms", *generation->prepare_seconds * kMilliseconds);
  built.figures.emplace_back("first_generation_ms",
                             [=] { return generation->generation.first_seconds() * kMilliseconds; });
  built.model.tokens = built.model.new_tokens - static_cast<double>(sequences.size());
  if (built.model.tokens == 0) return;
  built.phases.emplace_back("decode");
  built.model.token_phase = kDecode;
  built.model.token_bytes = StoredAt(at).DecodeReadBytes(sequences);
  // With a draft, the gaps are those between passes.
  const char* const gap = generation->draft == nullptr ? "itl" : "pass";
  built.figures.emplace_back(absl::StrCat(gap, "_ms"), [=] {
    const std::vector<double>& gaps = generation->generation.gaps();
    return gaps.empty() ? std::numeric_limits<double>::quiet_NaN() : timing::Median(gaps) * kMilliseconds;
  });
  for (const auto& [name, q] : {std::pair{"_p95", 0.95}, {"_p99", 0.99}}) {
    const auto tail = [=, q = q](double timing::BoundedQuantile::*part, double unit) {
      const auto found = timing::QuantileInInterval(generation->generation.gaps(), q);
      return found ? *found.*part * unit : std::numeric_limits<double>::quiet_NaN();
    };
    built.figures.emplace_back(absl::StrCat(gap, name, "_ms"),
                               [=] { return tail(&timing::BoundedQuantile::value, kMilliseconds); });
    built.figures.emplace_back(absl::StrCat(gap, name, "_ci"), [=] { return tail(&timing::BoundedQuantile::ci, 1); });
  }
}

namespace {

// Ragged texts one by one, so that the reference does not share their computation.
at::Tensor OfTexts(at::Tensor (*logits)(const LoadedModel&, const ReadTokens&), const GenerationCase& o) {
  // A search ends with the caches of other texts.
  const models::KvCache* const cache = o.generation.searches() ? nullptr : o.generation.decoder().keys_and_values();
  std::vector<at::Tensor> rows;
  int64_t first = 0;
  for (const at::Tensor& texts : o.generation.Read()) {
    std::optional<models::KvCache> own;
    if (cache != nullptr) own = cache->Of(first, texts.size(0));
    const int64_t prompt = o.generation.lengths()[static_cast<std::size_t>(first)];
    rows.push_back(logits(*o.model, {texts, prompt, own ? &*own : nullptr}));
    first += texts.size(0);
  }
  return at::cat(rows);
}

}  // namespace

FamilyOf<GenerationCase> GenerationFamily(std::string name, std::string doc, const PointFunction& generate_at) {
  return TokenFamily<GenerationCase>(std::move(name), std::move(doc), generate_at)
      .Impl("fastest", OnCpu([](GenerationCase& o, timing::PhaseMarker& marker) { o.Run(marker); }))
      .Limits(kFastestLimits)
      .When([=](const Point& at, const Device& device) { return SupportsFastest(generate_at(at), device); })
      .Work([=](const Point& at) {
        const Point point = generate_at(at);
        return StoredAt(point).GenerateCost(point.Number("batch"), point.Number("prompt"), point.Number("new"));
      })
      .Operands([=](const Point& at, Inputs& in) { return GenerationAt(generate_at(at), in); })
      .Result([](const GenerationCase& o) { return o.generation.logits(); })
      .Reference([](const GenerationCase& o) { return OfTexts(ExactLogits, o); })
      .Rounded([](const GenerationCase& o) { return OfTexts(RoundedLogits, o); })
      .Details([=](const Point& at, const std::shared_ptr<GenerationCase>& generation, Case& built) {
        const Point point = generate_at(at);
        DescribeGeneration(point, generation, built);
      });
}

Point GenerationPoint() { return FamilyNamed("generate").Points(Suite::kQuick).front(); }

Point CheckpointPoint(const Point& at, std::size_t prompt, std::size_t batch) {
  Point point = GenerationPoint()
                    .With("model", kCheckpointModel)
                    .With("batch", absl::StrCat(batch))
                    .With("prompt", absl::StrCat(prompt));
  for (const auto& [axis, value] : at.values()) {
    if (point.Has(axis)) point = point.With(axis, value);  // a text has axes of its own
  }
  return point;
}

}  // namespace roofbench
