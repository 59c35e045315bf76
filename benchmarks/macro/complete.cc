// SPDX-License-Identifier: Apache-2.0
// A prompt of token ids that a checkpoint goes on with, so that a person can read what a precision makes of it:
// tools/tokens turns text into ids and back. Unlike in `generate`, the text ends where the model ends it.

#include <ATen/core/grad_mode.h>

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_join.h"
#include "benchmarks/macro/generation.h"
#include "benchmarks/macro/given_ids.h"
#include "lib/gbench/flag_check.h"
#include "lib/models/checkpoint/token_ids.h"

ABSL_FLAG(std::string, prompt_ids, "",
          "token ids of the prompt of `complete`: themselves, a file of them, or - (stdin)");
ABSL_FLAG(std::string, stop_ids, "", "token ids that end a text of `complete` (by default those of the checkpoint)");
// lib/gbench writes what the cases leave behind to it.
ABSL_FLAG(std::string, tokens_out, "", "file that gets the token ids that `complete` chose, a line a case");

namespace roofbench {
namespace {

using models::TokenIds;

GivenIds& Prompt() {
  static auto* prompt = new GivenIds(
      "--prompt_ids", [] { return absl::GetFlag(FLAGS_prompt_ids); }, 1);
  return *prompt;
}

Point GenerateAt(const Point& at) { return CheckpointPoint(at, Prompt().Get().ok() ? Prompt().Get()->size() : 1); }

absl::StatusOr<TokenIds> TheStopIds() { return models::ParseTokenIds("--stop_ids", absl::GetFlag(FLAGS_stop_ids)); }

// Before anything is measured.
absl::Status CheckIds() {
  if (const absl::Status stops = TheStopIds().status(); !stops.ok()) return stops;
  return Prompt().Check();
}

const FlagCheck kIds(CheckIds);

absl::Status SupportsPrompt(const Point& at, const Device& device) {
  if (!Prompt().Get().ok()) return Prompt().Get().status();
  return SupportsModel(GenerateAt(at), device);
}

// It has run once: where a text ends is known only then.
absl::StatusOr<GenerationCase> Completed(const Point& at, Inputs& in) {
  const Point point = GenerateAt(at);
  const absl::StatusOr<models::DecoderConfig> config = ConfigAt(point);
  if (!config.ok()) return config.status();
  const absl::StatusOr<TokenIds> stops = TheStopIds();
  if (!stops.ok()) return stops.status();
  auto completed = GenerationAt(point, in, *Prompt().Get(), stops->empty() ? config->stop_ids : *stops);
  const at::NoGradGuard no_grad;
  if (completed.ok()) completed->generation.Run([] {});
  return completed;
}

void Describe(const Point& at, const std::shared_ptr<GenerationCase>& completed, Case& built) {
  const Point point = GenerateAt(at);
  const int64_t made = completed->generation.made();
  DescribeGeneration(point, made, completed, built);
  built.cost = StoredAt(point).GenerateCost(1, point.Number("prompt"), static_cast<double>(made));
  built.text = [completed] { return absl::StrJoin(completed->generation.Ids(), ","); };
}

const Registration kComplete =
    GenerationFamily("complete", "goes on with the prompt of --prompt_ids by the model of --checkpoint", GenerateAt)
        .Axes(StorageAxes())
        .Axes(ChoiceAxes())
        .Supports(SupportsPrompt)
        .PredictAs(GenerateAt)
        .Operands(Completed)
        .Details(Describe)
        .Points(Suite::kFull, {{"precision", {"bf16", "int8", "int4", "llm_int8"}}, {"new", {128}}});

}  // namespace
}  // namespace roofbench
