#include "benchmarks/macro/generation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

enum Phase : std::size_t { kPrefill, kDecode };

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
  at::Tensor prompt;              // [batch, tokens]
  std::vector<int64_t> stop_ids;  // one sequence ends with these; several never do
  at::Tensor chosen;              // [most new tokens, batch], on the host
  int64_t made = 0;               // new tokens that the last run made
  Record record = {};
  at::Tensor logits = {};  // of the last token

  // Whether nothing follows these.
  bool Choose(const at::Tensor& from) {
    logits = from.to(at::kCPU);
    const int64_t batch = logits.size(0);
    int64_t* const ids = chosen.data_ptr<int64_t>() + made++ * batch;
    for (int64_t b = 0; b < batch; ++b) ids[b] = chooser.Choose(logits.data_ptr<float>() + b * logits.size(1));
    return made == chosen.size(0) || std::find(stop_ids.begin(), stop_ids.end(), ids[0]) != stop_ids.end();
  }

  void Run(timing::PhaseMarker& marker) {
    const double start = Now();
    chooser.Restart();
    decoder->Truncate(0);
    made = 0;
    bool ended = Choose(decoder->Append(prompt));
    marker.End(kPrefill);
    const bool first = record.steps++ == 0;
    double last = Now();
    while (!ended) {
      ended = Choose(decoder->AppendOne(chosen.data_ptr<int64_t>() + (made - 1) * chosen.size(1)));
      const double now = Now();
      if (!first) record.gaps.push_back(now - last);
      last = now;
    }
    if (made > 1) marker.End(kDecode);
    if (first) record.first_step = Now() - start;
  }

  // Prompt and every chosen token but the last, whose logits nobody asked for: before the first run, the prompt.
  at::Tensor Read() const {
    return at::cat({prompt.to(at::kCPU), chosen.narrow(0, 0, std::max<int64_t>(made - 1, 0)).t()}, 1);
  }

  std::vector<int64_t> Ids() const {
    const auto* const ids = chosen.const_data_ptr<int64_t>();
    return {ids, ids + made * chosen.size(1)};
  }
};

class Unmarked : public timing::PhaseMarker {
 public:
  void End(int /*phase*/) override {}
};

// The figures of a generation that need the time of every token.
void DescribeGeneration(const std::shared_ptr<Generation>& generation, int64_t new_tokens, Case& built) {
  const auto add = [&](const char* name, auto value) {
    built.figures.emplace_back(name, [generation, value] { return value(*generation); });
  };
  add("first_generation_ms", [](const Generation& g) { return g.record.first_step * kMilliseconds; });
  if (new_tokens < 2) return;
  add("itl_ms", [](const Generation& g) { return timing::Median(g.record.gaps) * kMilliseconds; });
  add("itl_p95_ms", [](const Generation& g) { return timing::Quantile(g.record.gaps, 0.95) * kMilliseconds; });
  add("itl_p99_ms", [](const Generation& g) { return timing::Quantile(g.record.gaps, 0.99) * kMilliseconds; });
}

}  // namespace

absl::StatusOr<Case> BuildGeneration(const Point& at, Inputs& in, const std::optional<Completion>& completion) {
  const auto model = ModelAt(at, in.device());
  if (!model.ok()) return model.status();
  const double batch = at.Number("batch");
  const double prompt = at.Number("prompt");
  const auto vocab = static_cast<int64_t>((*model)->weights.config.shape.base.vocab);
  const auto decoder = DecoderAt(at, **model, at.Int("prompt") + at.Int("new"), in.device());
  if (!decoder.ok()) return decoder.status();
  const bool samples = at.Text("sampling") == "top_k";
  const models::ChoiceOptions choice = {.top_k = samples ? 200 : 1, .temperature = samples ? 0.8 : 1, .seed = 1};
  const auto generation = std::make_shared<Generation>(
      Generation{.model = *model,
                 .decoder = *decoder,
                 .chooser = models::TokenChooser(choice, vocab),
                 .prompt = completion ? completion->prompt : in.Integers(0, vocab, {at.Int("batch"), at.Int("prompt")}),
                 .stop_ids = completion ? completion->stop_ids : std::vector<int64_t>(),
                 .chosen = at::zeros({at.Int("new"), at.Int("batch")}, at::kLong)});
  constexpr std::size_t kMostGaps = 1 << 20;  // nothing may allocate in a step
  generation->record.gaps.reserve(kMostGaps);
  int64_t made = at.Int("new");
  if (completion) {
    // Where it ends is known once it has run.
    const at::NoGradGuard no_grad;
    Unmarked unmarked;
    generation->Run(unmarked);
    made = generation->made;
  }
  const workload::StoredDecoder stored = StoredAt(at);
  const auto new_tokens = static_cast<double>(made);
  Case built{.step = [=](timing::PhaseMarker& marker) { generation->Run(marker); },
             .phases = {"prefill"},
             .result = [=] { return std::vector{generation->logits}; },
             .reference = [=] { return std::vector{ExactLogits(*generation->model, generation->Read())}; },
             .model = {.prompt_tokens = batch * prompt, .prompt_phase = kPrefill}};
  if (made > 1) {
    built.phases.emplace_back("decode");
    built.model.tokens = batch * (new_tokens - 1);
    built.model.token_phase = kDecode;
    built.model.token_bytes = stored.DecodeReadBytes(batch, prompt, new_tokens);
  }
  if (completion) {
    built.cost = stored.GenerateCost(batch, prompt, new_tokens);
    built.finish = [generation, take = completion->take] { return take(generation->Ids()); };
  }
  DescribeModel(**model, built);
  DescribeGeneration(generation, made, built);
  return built;
}

Point GenerationPoint() { return FamilyNamed("generate").Points(Suite::kQuick).front(); }

}  // namespace roofbench
