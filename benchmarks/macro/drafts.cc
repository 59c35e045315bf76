// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/drafts.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/macro/given_checkpoint.h"

namespace roofbench {
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
  const auto tell = [&](const char* name, double value) {
    built.figures.emplace_back(name, [value] { return value; });
  };
  tell("draft_bytes", static_cast<double>(drafted->draft->weights.nbytes()));
  const models::TokenIds ids = generation.Ids(0);
  const auto agreed = std::ranges::mismatch(ids, drafted->plain.ids).in1 - ids.begin();
  tell("agreed_tokens", static_cast<double>(agreed));
  if (speculation.model_passes().empty()) return;
  tell("tokens_per_pass",
       static_cast<double>(generation.steps() - 1) / static_cast<double>(speculation.model_passes().size()));
  if (speculation.guessed() > 0) {
    tell("acceptance", static_cast<double>(speculation.accepted()) / static_cast<double>(speculation.guessed()));
  }
  built.figures.emplace_back("speedup",
                             [drafted] { return drafted->plain.decode_seconds / drafted->generation.gap_seconds(); });
}

}  // namespace roofbench
