// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/generation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <optional>
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
  generation.Run([&] {
    range.reset();
    marker.End(kPrefill);
    if (generation.most_new() > 1) range.emplace("decode");
  });
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

}  // namespace

absl::StatusOr<GenerationCase> GenerationAt(const Point& at, Inputs& in, const std::vector<models::TokenIds>& prompts,
                                            const TextRules& rules) {
  const int64_t capacity = at.Int("prompt") + at.Int("new");
  auto loaded = DecoderAt(at, capacity, in.device(), rules.guesses + 1);
  if (!loaded.ok()) return loaded.status();
  absl::StatusOr<LoadedDecoder> draft = LoadedDecoder();
  // A draft reads its last guess and the token after it at once.
  if (rules.draft) draft = DecoderAt(*rules.draft, capacity, in.device(), /*piece=*/2);
  if (!draft.ok()) return draft.status();
  const int64_t vocab = loaded->model->vocab();
  const Given given = prompts.empty()
                          ? Given{.ids = in.Integers(0, vocab, {at.Int("batch"), at.Int("prompt")}), .lengths = {}}
                          : InTurn(prompts, in.device().torch_device());
  const bool samples = at.Text("sampling") == "top_k";
  // From the first token after the prompt.
  loaded->decoder->Prepare(at.Int("prompt") + 1, capacity - 1);
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
      attention};
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
  built.figures.emplace_back("first_generation_ms",
                             [=] { return generation->generation.first_seconds() * kMilliseconds; });
  built.model.tokens = built.model.new_tokens - static_cast<double>(sequences.size());
  if (built.model.tokens == 0) return;
  built.phases.emplace_back("decode");
  built.model.token_phase = kDecode;
  built.model.token_bytes = StoredAt(at).DecodeReadBytes(sequences);
  // With a draft, the gaps are those between passes.
  const char* const gap = generation->draft == nullptr ? "itl" : "pass";
  for (const auto& [name, q] : {std::pair{"_ms", 0.5}, {"_p95_ms", 0.95}, {"_p99_ms", 0.99}}) {
    built.figures.emplace_back(absl::StrCat(gap, name), [=, q = q] {
      return timing::Quantile(generation->generation.gaps(), q) * kMilliseconds;
    });
  }
}

namespace {

// Ragged texts one by one, so that the reference does not share their computation.
template <typename Logits>
at::Tensor OfTexts(Logits logits, const GenerationCase& o) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& texts : o.generation.Read()) rows.push_back(logits(*o.model, texts));
  return at::cat(rows);
}

}  // namespace

FamilyOf<GenerationCase> GenerationFamily(std::string name, std::string doc, const Family::PointFunction& generate_at) {
  return TokenFamily<GenerationCase>(std::move(name), std::move(doc), generate_at)
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
  for (const auto& [axis, value] : at.values()) point = point.With(axis, value);
  return point;
}

namespace {

constexpr char kNone[] = "none";

}  // namespace

std::vector<AxisSpec> DraftAxes() {
  std::vector<std::string> formats = {kNone};
  for (const workload::WeightFormat format : workload::kWeightFormats) formats.emplace_back(Name(format));
  return {{.name = "draft",
           .choices = std::move(formats),
           .default_value = kNone,
           .doc = "precision of the model of --draft_checkpoint, by default the checkpoint's own, which guesses tokens "
                  "that the "
                  "model then reads at once; none: no guesses"},
          {.name = "guesses", .default_value = "4", .doc = "tokens that a draft guesses before each reading, at most"}};
}

bool HasDraft(const Point& at) { return at.Text("draft") != kNone; }

Point DraftPoint(const Point& at, std::size_t prompt) {
  return GenerationPoint()
      .With("impl", at.Text("impl"))
      .With("model", kDraftModel)
      .With("precision", at.Text("draft"))
      .With("batch", "1")
      .With("prompt", absl::StrCat(prompt))
      .With("new", at.Text("new"));
}

absl::Status SupportsDraft(const Point& at, std::size_t prompts, std::size_t prompt, const Device& device) {
  if (prompts > 1) return absl::UnimplementedError("a draft guesses for one prompt at a time: give a single one");
  if (at.Text("impl") == "graph") {
    return absl::UnimplementedError("a graph reads one token, and guesses are read together; impl:eager takes a draft");
  }
  if (at.Text("sampling") != "greedy" || at.Int("beams") > 1) {
    return absl::UnimplementedError(
        "guesses are held against the most likely token: sampling:greedy and beams:1 take a draft");
  }
  if (at.Text("precision") == "llm_int8") {
    return absl::UnimplementedError(
        "LLM.int8() takes its outliers from all tokens that it reads at once, so that guesses would change the text; "
        "the other precisions take a draft, and llm_int8 can be one");
  }
  const Point draft = DraftPoint(at, prompt);
  if (absl::Status status = SupportsModel(draft, device); !status.ok()) return status;
  const auto model = ConfigAt(CheckpointPoint(at, prompt));
  if (!model.ok()) return model.status();
  const auto guessing = ConfigAt(draft);
  if (guessing->shape.base.vocab != model->shape.base.vocab) {
    return absl::UnimplementedError(absl::StrCat(
        "--draft_checkpoint has ", guessing->shape.base.vocab, " tokens and --checkpoint ", model->shape.base.vocab,
        ": a draft's tokens must be the model's, so take one of the same tokenizer"));
  }
  const auto longest = static_cast<int64_t>(prompt) + at.Int("new");
  if (guessing->max_positions < longest) {
    return absl::UnimplementedError(absl::StrCat("--draft_checkpoint takes ", guessing->max_positions,
                                                 " tokens, and the text has ", longest,
                                                 " with the new ones; choose fewer by --axis=complete.new=N"));
  }
  return absl::OkStatus();
}

PlainText PlainTextOf(GenerationCase& plain) {
  const at::NoGradGuard no_grad;
  // The first run is not counted.
  for (int run = 0; run < 2; ++run) plain.generation.Run([] {});
  return {plain.generation.Ids(0), plain.generation.gap_seconds()};
}

void DescribeDraft(const Point& at, const Point& draft, const std::shared_ptr<GenerationCase>& drafted, Case& built) {
  const models::Generation& generation = drafted->generation;
  const models::Speculation& speculation = *generation.speculation();
  const double capacity = at.Number("prompt") + at.Number("new");
  workload::Cost cost = StoredAt(at).GenerateCost(at.Number("prompt"), capacity, speculation.model_passes());
  cost += StoredAt(draft).GenerateCost(at.Number("prompt"), capacity, speculation.draft_passes());
  built.cost = std::move(cost);
  built.model.token_bytes = StoredAt(at).DecodeReadBytes(speculation.model_passes()) +
                            StoredAt(draft).DecodeReadBytes(speculation.draft_passes());
  const auto add = [&](const char* name, double value) { built.figures.emplace_back(name, [value] { return value; }); };
  add("draft_bytes", static_cast<double>(drafted->draft->weights.nbytes()));
  const models::TokenIds ids = generation.Ids(0);
  const auto agreed = std::ranges::mismatch(ids, drafted->plain.ids).in1 - ids.begin();
  add("agreed_tokens", static_cast<double>(agreed));
  if (speculation.model_passes().empty()) return;
  add("tokens_per_pass",
      static_cast<double>(generation.steps() - 1) / static_cast<double>(speculation.model_passes().size()));
  if (speculation.guessed() > 0) {
    add("acceptance", static_cast<double>(speculation.accepted()) / static_cast<double>(speculation.guessed()));
  }
  built.figures.emplace_back("speedup",
                             [drafted] { return drafted->plain.decode_seconds / drafted->generation.gap_seconds(); });
}

}  // namespace roofbench
