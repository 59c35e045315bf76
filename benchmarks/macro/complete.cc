// SPDX-License-Identifier: Apache-2.0
// Prompts of token ids that a checkpoint continues, so that a person can read the effect of a precision: tools/tokens
// converts text to ids and back. Unlike in `generate`, a text ends where the model ends it; prompts keep their lengths,
// without padding, and a finished text takes no part in the steps of the others.

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "benchmarks/macro/generation.h"
#include "benchmarks/macro/given.h"
#include "lib/base/process.h"
#include "lib/cli/flags.h"
#include "lib/models/generation/token_ids.h"

namespace roofbench {
namespace {

using models::TokenIds;

std::string prompt_ids;
std::string stop_ids;

models::BeamOptions beam_options;  // without their number, which is an axis

GivenIds& GivenPrompts() {
  static auto* prompts = new GivenIds("--prompt_ids", prompt_ids, models::ReadTokenLists);
  return *prompts;
}

// The prompts, shortened to leave room for the new tokens.
struct Prompts {
  std::vector<TokenIds> ids;
  std::vector<int64_t> left_out;  // first tokens of each that were removed

  std::size_t longest() const {
    return std::ranges::max_element(ids, {}, [](const TokenIds& prompt) { return prompt.size(); })->size();
  }
};

absl::StatusOr<Prompts> PromptsAt(const Point& at) {
  const absl::StatusOr<GivenIds::Lists>& given = GivenPrompts().Get();
  if (!given.ok()) return given.status();
  if (!GivenCheckpoint().ok()) return GivenCheckpoint().status();
  const int64_t positions = GivenCheckpoint()->config().max_positions;
  const int64_t room = positions - at.Int("new");
  if (room < 1) {
    return absl::UnimplementedError(absl::StrCat("the checkpoint takes ", positions, " tokens: ", at.Int("new"),
                                                 " new ones leave no room for a prompt; choose fewer by "
                                                 "--axis=complete.new=N"));
  }
  Prompts prompts{.ids = *given, .left_out = {}};
  for (TokenIds& prompt : prompts.ids) {
    const int64_t more = std::max<int64_t>(static_cast<int64_t>(prompt.size()) - room, 0);
    prompt.erase(prompt.begin(), prompt.begin() + more);
    prompts.left_out.push_back(more);
  }
  return prompts;
}

// Once for each number of new tokens.
void ReportLeftOut(const Prompts& prompts, int64_t new_tokens) {
  static auto* reported = new std::set<int64_t>();
  if (!reported->insert(new_tokens).second) return;
  for (std::size_t i = 0; i < prompts.ids.size(); ++i) {
    if (prompts.left_out[i] == 0) continue;
    std::cerr << ProgramName() << ": --prompt_ids: the first " << prompts.left_out[i] << " tokens of prompt " << i + 1
              << " are left out: the checkpoint takes " << GivenCheckpoint()->config().max_positions << " with "
              << new_tokens << " new ones among them\n";
  }
}

constexpr char kNone[] = "none";

// Those of generations with a draft that guesses tokens.
std::vector<AxisSpec> DraftAxes() {
  std::vector<std::string> formats = {kNone};
  for (const workload::WeightFormat format : workload::kWeightFormats) formats.emplace_back(Name(format));
  return {{.name = "draft",
           .choices = std::move(formats),
           .default_value = kNone,
           .doc = "precision of the model of --draft_checkpoint, by default the checkpoint's own, which guesses tokens "
                  "that the model then reads at once; none: no guesses"},
          {.name = "guesses", .default_value = "4", .doc = "tokens that a draft guesses before each reading, at most"}};
}

bool HasDraft(const Point& at) { return at.Text("draft") != kNone; }

// The draft's model as a point of the family generate, with a prompt of `prompt` tokens.
Point DraftPoint(const Point& at, std::size_t prompt) {
  return GenerationPoint()
      .With("impl", at.Text("impl"))
      .With("model", kDraftModel)
      .With("precision", at.Text("draft"))
      .With("batch", "1")
      .With("prompt", absl::StrCat(prompt))
      .With("new", at.Text("new"));
}

// Why a point with a draft cannot run with `prompts` prompts, the longest of `prompt` tokens.
absl::Status SupportsDraft(const Point& at, std::size_t prompts, std::size_t prompt, const Device& device) {
  if (prompts > 1) return absl::UnimplementedError("a draft guesses for one prompt at a time: give a single one");
  if (at.Text("impl") == "graph") {
    return absl::UnimplementedError("a graph reads one token, and guesses are read together; impl:eager takes a draft");
  }
  if (at.Text("sampling") != "greedy" || at.Int("beams") > 1) {
    return absl::UnimplementedError(
        "guesses are compared with the most likely token: sampling:greedy and beams:1 take a draft");
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

// The text of the model alone.
PlainText PlainTextOf(GenerationCase& plain) {
  const at::NoGradGuard no_grad;
  for (const int64_t measurement : {0, 1}) plain.generation.Run([] {}, measurement);
  return {plain.generation.Ids(0), plain.generation.gap_seconds()};
}

// Replaces costs and figures by those of a generation with a draft, which has run. `at` and `draft` are points of the
// family generate.
void DescribeDraft(const Point& at, const Point& draft, const std::shared_ptr<GenerationCase>& drafted, Case& built) {
  const models::Generation& generation = drafted->generation;
  const models::Speculation& speculation = *generation.speculation();
  const double capacity = at.Number("prompt") + at.Number("new");
  workload::Cost cost = StoredAt(at).GenerateCost(at.Number("prompt"), capacity, speculation.model_passes());
  cost += StoredAt(draft).GenerateCost(at.Number("prompt"), capacity, speculation.draft_passes());
  built.cost = std::move(cost);
  built.model.token_bytes = StoredAt(at).DecodeReadBytes(speculation.model_passes()) +
                            StoredAt(draft).DecodeReadBytes(speculation.draft_passes());
  built.AddFigure("draft_bytes", static_cast<double>(drafted->draft->weights.nbytes()));
  const models::TokenIds ids = generation.Ids(0);
  const auto agreed = std::ranges::mismatch(ids, drafted->plain.ids).in1 - ids.begin();
  built.AddFigure("agreed_tokens", static_cast<double>(agreed));
  if (speculation.model_passes().empty()) return;
  built.AddFigure("tokens_per_pass",
                  static_cast<double>(generation.steps() - 1) / static_cast<double>(speculation.model_passes().size()));
  if (speculation.guessed() > 0) {
    built.AddFigure("acceptance",
                    static_cast<double>(speculation.accepted()) / static_cast<double>(speculation.guessed()));
  }
  built.figures.emplace_back("speedup",
                             [drafted] { return drafted->plain.decode_seconds / drafted->generation.gap_seconds(); });
}

Point GenerateAt(const Point& at) {
  const absl::StatusOr<Prompts> prompts = PromptsAt(at);
  if (!prompts.ok()) return CheckpointPoint(at, 1);
  const auto beams = static_cast<std::size_t>(at.Int("beams"));
  return CheckpointPoint(at, prompts->longest(), beams > 1 ? beams : prompts->ids.size());
}

// The ends of texts and the accuracy of a draft are not known yet: assumes single tokens up to the limit.
workload::Cost PlannedCost(const Point& at) {
  const Point point = GenerateAt(at);
  const auto cost = [&](const Point& of) {
    return StoredAt(of).GenerateCost(of.Number("batch"), of.Number("prompt"), of.Number("new"));
  };
  workload::Cost planned = cost(point);
  if (HasDraft(at)) planned += cost(DraftPoint(at, static_cast<std::size_t>(point.Int("prompt"))));
  return planned;
}

absl::StatusOr<TokenIds> TheStopIds() { return models::ParseTokenIds("--stop_ids", stop_ids); }

// Before anything is measured.
absl::Status CheckIds() {
  if (const absl::Status stops = TheStopIds().status(); !stops.ok()) return stops;
  return GivenPrompts().Check();
}

const FlagRegistration kIdFlags(
    {.flags = {{"prompt_ids", "1,2;3|FILE|-", Text(prompt_ids), "token ids for complete (; or a line ends one)",
                kCommon},
               {"stop_ids", "1,2,3", Text(stop_ids),
                "token ids that end a text of complete (default: those of the checkpoint)"}},
     .check = CheckIds,
     .reads = [](const Point& at) { return at.family() == "complete"; },
     .way_out = "--benchmark_filter='^complete/' selects cases that read it"});

const FlagRegistration kBeamFlags(
    {.flags = {{"length_penalty", "NUMBER", Number(beam_options.length_penalty, -10, 10),
                "beams: log probabilities are divided by the length to this power; above 0 for longer texts"},
               {"early_stopping", "false|true|never",
                OneOf<models::EarlyStopping>(beam_options.early_stopping, {{"false", models::EarlyStopping::kFalse},
                                                                           {"true", models::EarlyStopping::kTrue},
                                                                           {"never", models::EarlyStopping::kNever}}),
                "beams: whether a search stops once it has `beams` ended texts; as in transformers"}},
     .reads = [](const Point& at) { return at.family() == "complete" && at.Int("beams") > 1; },
     .way_out = "--axis=complete.beams=N selects cases that read it"});

absl::Status SupportsBeams(const Point& at, std::size_t prompts) {
  if (prompts > 1) return absl::UnimplementedError("beams are searched for one prompt at a time: give a single one");
  if (at.Text("impl") == "graph") {
    return absl::UnimplementedError(
        "beam search reorders the cache after each token, which a graph cannot repeat; use impl:eager");
  }
  if (at.Text("sampling") != "greedy") {
    return absl::UnimplementedError("a search takes the most likely texts and draws nothing: sampling:greedy");
  }
  return absl::OkStatus();
}

absl::Status SupportsPrompts(const Point& at, const Device& device) {
  const absl::StatusOr<Prompts> prompts = PromptsAt(at);
  if (!prompts.ok()) return prompts.status();
  if (at.Text("impl") == "graph" && prompts->ids.size() > 1) {
    return absl::UnimplementedError(
        "a graph appends a token to every sequence at the same place, and these have places of their own; impl:eager "
        "takes several prompts");
  }
  if (at.Int("beams") > 1) {
    if (absl::Status status = SupportsBeams(at, prompts->ids.size()); !status.ok()) return status;
  }
  if (HasDraft(at)) {
    absl::Status status = SupportsDraft(at, prompts->ids.size(), prompts->longest(), device);
    if (!status.ok()) return status;
  }
  for (const TokenIds& prompt : prompts->ids) {
    const Point one = GenerateAt(at).With("prompt", absl::StrCat(prompt.size()));
    if (absl::Status status = SupportsModel(one, device); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Runs it once to find the ends of the texts.
absl::StatusOr<GenerationCase> Completed(const Point& at, Inputs& in) {
  const Point point = GenerateAt(at);
  const absl::StatusOr<models::DecoderConfig> config = ConfigAt(point);
  if (!config.ok()) return config.status();
  const absl::StatusOr<TokenIds> stops = TheStopIds();
  if (!stops.ok()) return stops.status();
  const absl::StatusOr<Prompts> prompts = PromptsAt(at);
  if (!prompts.ok()) return prompts.status();
  ReportLeftOut(*prompts, at.Int("new"));
  TextRules rules{.stop_ids = stops->empty() ? config->stop_ids : *stops, .beams = beam_options};
  rules.beams.beams = at.Int("beams");
  PlainText plain;
  if (HasDraft(at)) {
    auto without = GenerationAt(point, in, prompts->ids, rules);
    if (!without.ok()) return without.status();
    plain = PlainTextOf(*without);
    rules.draft = DraftPoint(at, prompts->longest());
    rules.guesses = at.Int("guesses");
  }
  auto completed = GenerationAt(point, in, prompts->ids, rules);
  if (completed.ok()) completed->plain = std::move(plain);
  const at::NoGradGuard no_grad;
  if (completed.ok()) completed->generation.Run([] {});
  return completed;
}

// A line for each text; if there are several, with its number and end.
std::string TextOf(const models::Generation& generation) {
  std::vector<std::string> lines;
  for (int64_t b = 0; b < generation.batch(); ++b) {
    const TokenIds ids = generation.Ids(b);
    std::string& line = lines.emplace_back();
    if (generation.batch() > 1) {
      absl::StrAppend(&line, "prompt ", b + 1, ": ", ids.size(), " tokens, ",
                      generation.HasStopped(b) ? "ended" : "not ended", "\t");
    }
    absl::StrAppend(&line, absl::StrJoin(ids, ","));
  }
  return absl::StrJoin(lines, "\n");
}

void Describe(const Point& at, const std::shared_ptr<GenerationCase>& completed, Case& built) {
  const Point point = GenerateAt(at);
  const models::Generation& generation = completed->generation;
  std::vector<workload::SequenceTokens> sequences;
  std::vector<double> ends;
  for (int64_t b = 0; b < generation.batch(); ++b) {
    const auto i = static_cast<std::size_t>(b);
    const auto made = static_cast<double>(generation.made()[i]);
    sequences.push_back({static_cast<double>(generation.lengths()[i]), made});
    if (generation.HasStopped(b)) ends.push_back(made);
  }
  DescribeGeneration(point, sequences, completed, built);
  // Each beam reads the prompt, and a token of every step.
  std::vector<workload::SequenceTokens> worked = sequences;
  if (const auto beams = static_cast<std::size_t>(at.Int("beams")); beams > 1) {
    worked.assign(beams, {sequences.front().prompt, static_cast<double>(generation.steps())});
    built.model.token_bytes = StoredAt(point).DecodeReadBytes(worked);
    // The best text may end with its first token while the search continues for others.
    if (built.model.tokens == 0 && generation.steps() > 1) built.phases.emplace_back("decode");
  }
  built.cost = StoredAt(point).GenerateCost(worked);
  if (HasDraft(at))
    DescribeDraft(point, DraftPoint(at, static_cast<std::size_t>(generation.lengths().front())), completed, built);
  built.text = [completed] { return TextOf(completed->generation); };
  built.AddFigure("sequences", static_cast<double>(sequences.size()));
  built.AddFigure("sequences_ended", static_cast<double>(ends.size()));
  if (!ends.empty()) {
    built.AddFigure("first_end_tokens", std::ranges::min(ends));
    built.AddFigure("last_end_tokens", std::ranges::max(ends));
  }
  double left_out = 0;
  if (const auto prompts = PromptsAt(at); prompts.ok()) {
    for (const int64_t tokens : prompts->left_out) left_out += static_cast<double>(tokens);
  }
  built.AddFigure("truncated_tokens", left_out);
}

const Registration kComplete =
    GenerationFamily("complete", "continues the prompts of --prompt_ids by the model of --checkpoint", GenerateAt)
        .Axes(StorageAxes())
        .Axes(ChoiceAxes())
        .Size("beams", "texts that a search follows at once; the most likely one is the answer", 1)
        .Axes(DraftAxes())
        .Work(PlannedCost)
        .Supports(SupportsPrompts)
        .PredictAs(GenerateAt)
        .Operands(Completed)
        .Details(Describe)
        .Points(Suite::kFull, {{"precision", {"bf16", "int8", "int4", "llm_int8"}}, {"new", {128}}});

}  // namespace
}  // namespace roofbench
