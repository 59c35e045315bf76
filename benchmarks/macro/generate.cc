// Token generation: what a person who serves a model waits for.
//
// generate reads a prompt and chooses tokens one after another, each from the logits that the last one led to; prefill
// and decode are its two halves alone: a prompt into an empty cache, and one token of each sequence at a depth of the
// cache. One token reads all weights once, so that decode is bound by memory; a prompt is bound by arithmetic.
// The quick suite runs a quarter of Llama-3.2-1B: 0.6 GB in bf16, far beyond every cache of a desktop, and so few
// tokens that a step stays well below a second.

#include <ATen/ops/cat.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "benchmarks/macro/language_model.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

enum Phase { kPrefill, kDecode };  // token_work counts on their order

constexpr double kMilliseconds = 1e3;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// What the steps of a case took, token by token.
struct Record {
  std::vector<double> gaps;  // seconds between tokens
  double first_step = 0;     // seconds of the very first step: in no other figure
  int64_t steps = 0;
};

// A generation that can be repeated: the same prompt, the same draws.
struct Generation {
  std::shared_ptr<const LoadedModel> model;
  std::shared_ptr<models::Decoder> decoder;
  models::TokenChooser chooser;
  at::Tensor prompt;  // [batch, tokens]
  at::Tensor chosen;  // [new tokens, batch]
  Record record = {};
  at::Tensor logits = {};  // of the last token

  void Choose(const at::Tensor& from, int64_t step) {
    logits = from;
    const int64_t vocab = from.size(1);
    for (int64_t b = 0; b < from.size(0); ++b) {
      chosen.data_ptr<int64_t>()[step * from.size(0) + b] = chooser.Choose(from.data_ptr<float>() + b * vocab);
    }
  }

  void Run(timing::PhaseMarker& marker) {
    const double start = Now();
    chooser.Restart();
    decoder->Truncate(0);
    Choose(decoder->Append(prompt), 0);
    marker.End(kPrefill);
    const bool first = record.steps++ == 0;
    double last = Now();
    for (int64_t i = 1; i < chosen.size(0); ++i) {
      Choose(decoder->AppendOne(chosen.data_ptr<int64_t>() + (i - 1) * chosen.size(1)), i);
      const double now = Now();
      if (!first) record.gaps.push_back(now - last);
      last = now;
    }
    if (chosen.size(0) > 1) marker.End(kDecode);
    if (first) record.first_step = Now() - start;
  }

  // Prompt and every chosen token but the last, whose logits nobody asked for.
  at::Tensor Read() const {
    const at::Tensor generated = chosen.narrow(0, 0, chosen.size(0) - 1).t();
    return at::cat({prompt, generated}, 1);
  }
};

// The figures of a generation that need the time of every token.
void DescribeGeneration(const std::shared_ptr<Generation>& generation, Case& built) {
  const auto add = [&](const char* name, auto value) {
    built.figures.emplace_back(name, [generation, value] { return value(*generation); });
  };
  add("first_generation_ms", [](const Generation& g) { return g.record.first_step * kMilliseconds; });
  if (generation->chosen.size(0) < 2) return;
  add("itl_ms", [](const Generation& g) { return timing::Median(g.record.gaps) * kMilliseconds; });
  add("itl_p95_ms", [](const Generation& g) { return timing::Quantile(g.record.gaps, 0.95) * kMilliseconds; });
  add("itl_p99_ms", [](const Generation& g) { return timing::Quantile(g.record.gaps, 0.99) * kMilliseconds; });
}

absl::StatusOr<Case> BuildGenerate(const Point& at, Inputs& in) {
  const auto model = ModelAt(at);
  if (!model.ok()) return model.status();
  const int64_t prompt = at.Int("prompt");
  const int64_t new_tokens = at.Int("new");
  const auto vocab = static_cast<int64_t>((*model)->weights.config.shape.base.vocab);
  const auto decoder = DecoderAt(at, **model, prompt + new_tokens, in.device());
  if (!decoder.ok()) return decoder.status();
  const bool samples = at.Text("sampling") == "top_k";
  const models::ChoiceOptions choice = {.top_k = samples ? 200 : 1, .temperature = samples ? 0.8 : 1, .seed = 1};
  const auto generation =
      std::make_shared<Generation>(Generation{.model = *model,
                                              .decoder = *decoder,
                                              .chooser = models::TokenChooser(choice, vocab),
                                              .prompt = in.Integers(0, vocab, {at.Int("batch"), prompt}),
                                              .chosen = in.Empty({new_tokens, at.Int("batch")}, at::kLong)});
  constexpr std::size_t kMostGaps = 1 << 20;  // nothing may allocate in a step
  generation->record.gaps.reserve(kMostGaps);
  Case built{.step = [=](timing::PhaseMarker& marker) { generation->Run(marker); },
             .phases = {"prefill"},
             .result = [=] { return std::vector{generation->logits}; },
             .reference = [=] { return std::vector{ExactLogits(*generation->model, generation->Read())}; }};
  built.token_work.prompt_tokens = at.Number("batch") * at.Number("prompt");
  if (new_tokens > 1) {
    built.phases.emplace_back("decode");
    built.token_work.new_tokens = at.Number("batch") * (at.Number("new") - 1);
    built.token_work.new_bytes =
        StoredAt(at).DecodeReadBytes(at.Number("batch"), at.Number("prompt"), at.Number("new"));
  }
  DescribeModel(**model, built);
  DescribeGeneration(generation, built);
  return built;
}

const Registration kGenerateFamily(
    LanguageModelFamily("generate", "reads a prompt and generates tokens, one after another")
        .Axis({.name = "prompt", .doc = "tokens of a prompt"})
        .Axis({.name = "new", .doc = "tokens to generate"})
        .Axis({.name = "sampling",
               .choices = {"greedy", "top_k"},
               .default_value = "greedy",
               .doc = "top_k: of the 200 most likely, at temperature 0.8"})
        .Grid(Suite::kQuick, {{"model", {"llama3_1b_4th"}},
                              {"precision", {"bf16", "int8", "int4", "llm_int8"}},
                              {"prompt", {"32"}},
                              {"new", {"8"}}})
        .Grid(Suite::kStandard, {{"impl", {"eager", "native"}},
                                 {"model", {"llama3_1b_4th"}},
                                 {"precision", {"fp32", "bf16", "fp16", "int8", "int4", "llm_int8"}},
                                 {"prompt", {"128"}},
                                 {"new", {"32"}}})
        .Grid(Suite::kStandard, {{"model", {"llama3_1b_4th"}},
                                 {"precision", {"bf16", "int8", "int4", "llm_int8"}},
                                 {"batch", {"8", "32"}},
                                 {"prompt", {"128"}},
                                 {"new", {"32"}}})
        .Grid(Suite::kStandard, {{"model", {"mixtral_8x7b_32nd"}},
                                 {"precision", {"bf16", "int8", "int4"}},
                                 {"prompt", {"128"}},
                                 {"new", {"32"}}})
        .Grid(Suite::kFull, {{"model", {"tinyllama_1b", "llama3_1b", "llama2_7b", "llama3_8b"}},
                             {"precision", {"bf16", "int8", "int4", "llm_int8"}},
                             {"batch", {"1", "8"}},
                             {"prompt", {"6", "512", "2048"}},
                             {"new", {"1", "128"}}})
        .Grid(Suite::kFull, {{"impl", {"graph"}},
                             {"model", {"llama3_1b"}},
                             {"precision", {"bf16", "int8"}},
                             {"prompt", {"6"}},
                             {"new", {"128"}}})
        .Supports(LanguageModelSupports)
        .Cost([](const Point& at) {
          return StoredAt(at).GenerateCost(at.Number("batch"), at.Number("prompt"), at.Number("new"));
        })
        .Build(BuildGenerate));

// An experiment that others published, as a point of `generate`, and their tokens a second (0: none for this point).
struct Experiment {
  const char* name;
  const char* model;
  const char* precision;
  const char* outliers;
  const char* batch;
  const char* prompt;
  const char* new_tokens;
  const char* sampling;
  double target;
};

// gpt-fast's are of an A100-40GB. bitsandbytes' are of an RTX 4090 (batch 1; its script takes batch 8, whose figures
// are not published).
constexpr Experiment kExperiments[] = {
    {"gpt_fast_llama2_7b_bf16", "llama2_7b", "bf16", "6", "1", "6", "200", "top_k", 94},
    {"gpt_fast_llama2_7b_int8", "llama2_7b", "int8", "6", "1", "6", "200", "top_k", 144},
    {"gpt_fast_mixtral_8x7b_int8", "mixtral_8x7b_16layers", "int8", "6", "1", "6", "200", "top_k", 175},
    {"bitsandbytes_bf16", "llama3_8b", "bf16", "6", "1", "128", "128", "greedy", 47.5},
    {"bitsandbytes_int8", "llama3_8b", "llm_int8", "none", "1", "128", "128", "greedy", 45.4},
    {"bitsandbytes_int8_outliers", "llama3_8b", "llm_int8", "6", "1", "128", "128", "greedy", 22.3},
    {"bitsandbytes_bf16_batch8", "llama3_8b", "bf16", "6", "8", "128", "128", "greedy", 0},
    {"bitsandbytes_int8_batch8", "llama3_8b", "llm_int8", "none", "8", "128", "128", "greedy", 0},
    {"bitsandbytes_int8_outliers_batch8", "llama3_8b", "llm_int8", "6", "8", "128", "128", "greedy", 0},
};

std::vector<std::string> ExperimentNames() {
  std::vector<std::string> names;
  for (const Experiment& experiment : kExperiments) names.emplace_back(experiment.name);
  return names;
}

const Experiment& ExperimentAt(const Point& at) {
  return *std::find_if(std::begin(kExperiments), std::end(kExperiments),
                       [&](const Experiment& experiment) { return at.Text("experiment") == experiment.name; });
}

Point GenerateAt(const Point& at) {
  const Experiment& experiment = ExperimentAt(at);
  const auto generate =
      std::find_if(Families().begin(), Families().end(), [](const Family& f) { return f.name() == "generate"; });
  return generate->Points(Suite::kQuick)
      .front()
      .With("impl", at.Text("impl"))
      // Tests put a tiny model here.
      .With("model", at.Text("model") == "published" ? experiment.model : at.Text("model"))
      .With("precision", experiment.precision)
      .With("outliers", experiment.outliers)
      .With("batch", experiment.batch)
      .With("prompt", experiment.prompt)
      .With("new", experiment.new_tokens)
      .With("sampling", experiment.sampling);
}

absl::StatusOr<Case> BuildPublished(const Point& at, Inputs& in) {
  absl::StatusOr<Case> built = BuildGenerate(GenerateAt(at), in);
  if (const double target = ExperimentAt(at).target; built.ok() && target > 0) {
    built->figures.emplace_back("target_tokens/s", [target] { return target; });
  }
  return built;
}

const Registration kPublishedFamily(
    Family("published", "generations that others published, with their figure as target_tokens/s")
        .Axis({.name = "impl", .choices = {"native", "eager", "graph"}, .default_value = "native"})
        .Axis({.name = "experiment", .choices = ExperimentNames()})
        .Axis({.name = "model",
               .choices = {"published", "tiny_llama", "tiny_mixtral"},
               .default_value = "published",
               .doc = "another one to try the case with"})
        .DefaultCache("warm")
        .Grid(Suite::kFull, {{"impl", {"native", "graph"}}, {"experiment", ExperimentNames()}})
        .Supports([](const Point& at, const Device& device) { return LanguageModelSupports(GenerateAt(at), device); })
        .Cost([](const Point& at) {
          const Point point = GenerateAt(at);
          return StoredAt(point).GenerateCost(point.Number("batch"), point.Number("prompt"), point.Number("new"));
        })
        .Build(BuildPublished));

absl::StatusOr<Case> BuildPrefill(const Point& at, Inputs& in) {
  const auto model = ModelAt(at);
  if (!model.ok()) return model.status();
  const int64_t prompt = at.Int("prompt");
  const auto decoder = DecoderAt(at, **model, prompt, in.device());
  if (!decoder.ok()) return decoder.status();
  const auto vocab = static_cast<int64_t>((*model)->weights.config.shape.base.vocab);
  const at::Tensor tokens = in.Integers(0, vocab, {at.Int("batch"), prompt});
  const auto logits = std::make_shared<at::Tensor>();
  Case built{.step =
                 [=, decoder = *decoder] {
                   decoder->Truncate(0);
                   *logits = decoder->Append(tokens);
                 },
             .result = [=] { return std::vector{*logits}; },
             .reference = [=, model = *model] { return std::vector{ExactLogits(*model, tokens)}; },
             .token_work = {.prompt_tokens = at.Number("batch") * at.Number("prompt")}};
  DescribeModel(**model, built);
  return built;
}

const Registration kPrefillFamily(
    LanguageModelFamily("prefill", "reads a prompt: from an empty cache to the logits of its last token")
        .Axis({.name = "prompt", .doc = "tokens of a prompt"})
        .Grid(Suite::kStandard, {{"impl", {"eager"}},
                                 {"model", {"llama3_1b_4th"}},
                                 {"precision", {"fp32", "bf16", "int8", "llm_int8"}},
                                 {"prompt", {"128", "512"}}})
        .Grid(Suite::kFull, {{"impl", {"eager"}},
                             {"model", {"llama3_1b", "llama2_7b"}},
                             {"precision", {"bf16", "int8"}},
                             {"prompt", {"512", "2048"}}})
        .ExpectLaw("prompt", 1)
        .Supports(LanguageModelSupports)
        .Cost([](const Point& at) {
          return StoredAt(at).PrefillCost(at.Number("batch"), at.Number("prompt"), at.Number("prompt"));
        })
        .Build(BuildPrefill));

// A depth that no prompt has to be read for: the cache holds random keys and values. The result is checked at depth 1
// to 16 beside it, where the reference can read the tokens.
absl::StatusOr<Case> BuildDecode(const Point& at, Inputs& in) {
  const auto model = ModelAt(at);
  if (!model.ok()) return model.status();
  const int64_t depth = at.Int("depth");
  const int64_t batch = at.Int("batch");
  const auto decoder = DecoderAt(at, **model, depth + 1, in.device());
  if (!decoder.ok()) return decoder.status();
  const auto vocab = static_cast<int64_t>((*model)->weights.config.shape.base.vocab);
  const int64_t checked = std::min<int64_t>(depth, 16);
  const at::Tensor tokens = in.Integers(0, vocab, {batch, checked + 1});
  const at::Tensor last = tokens.select(1, checked).contiguous();
  constexpr uint64_t kCacheSeed = 7;
  (*decoder)->FillRandom(depth, kCacheSeed);
  Case built{.step =
                 [=, decoder = *decoder] {
                   decoder->Truncate(depth);
                   decoder->AppendOne(last.data_ptr<int64_t>());
                 },
             .result =
                 [=, decoder = *decoder] {
                   decoder->Truncate(0);
                   decoder->Append(tokens.narrow(1, 0, checked).contiguous());
                   const std::vector result{decoder->AppendOne(last.data_ptr<int64_t>()).clone()};
                   decoder->FillRandom(depth, kCacheSeed);
                   return result;
                 },
             .reference = [=, model = *model] { return std::vector{ExactLogits(*model, tokens)}; },
             .token_work = {.new_tokens = at.Number("batch"),
                            .new_bytes = StoredAt(at).DecodeReadBytes(at.Number("batch"), at.Number("depth"), 2)}};
  DescribeModel(**model, built);
  return built;
}

const Registration kDecodeFamily(
    LanguageModelFamily("decode", "one more token of each sequence, at a depth of the cache")
        .Axis({.name = "depth", .doc = "tokens in the cache before"})
        .Grid(Suite::kStandard, {{"impl", {"eager", "native"}},
                                 {"model", {"llama3_1b"}},
                                 {"precision", {"bf16", "int8"}},
                                 {"depth", {"128"}}})
        .Grid(Suite::kStandard, {{"model", {"llama3_1b"}}, {"precision", {"int4", "llm_int8"}}, {"depth", {"128"}}})
        .Grid(Suite::kFull, {{"model", {"llama3_1b"}},
                             {"precision", {"bf16", "int8"}},
                             {"batch", {"1", "8"}},
                             {"depth", {"1", "512", "2048", "8192", "32768"}}})
        .Supports(LanguageModelSupports)
        .Cost([](const Point& at) {
          return StoredAt(at).DecodeCost(at.Number("batch"), at.Number("depth"), at.Number("depth") + 1);
        })
        .Build(BuildDecode));

}  // namespace
}  // namespace roofbench
