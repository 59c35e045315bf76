// SPDX-License-Identifier: Apache-2.0
// A generation as a case: its phases are reading the prompt and making every token after the first.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/macro/language_model.h"
#include "lib/models/generation/generation.h"

namespace roofbench {

// What a model makes of a prompt without a draft.
struct PlainText {
  models::TokenIds ids = {};
  double decode_seconds = 0;
};

struct GenerationCase {
  std::shared_ptr<const LoadedModel> model;
  std::shared_ptr<const LoadedModel> draft;  // nullptr: there is none
  models::Generation generation;
  std::optional<int64_t> attention;  // DecoderModel::AttentionBackend of the last token
  PlainText plain = {};              // beside a draft

  void Run(timing::PhaseMarker& marker);
};

// new and sampling.
std::vector<AxisSpec> ChoiceAxes();

// How a text is found, where it is not by most likely tokens up to their greatest number.
struct TextRules {
  models::TokenIds stop_ids = {};  // none: nothing ends before, so that the work is known
  models::BeamOptions beams = {};
  std::optional<Point> draft = {};  // of the family generate
  int64_t guesses = 0;              // of the draft
};

// `at` is a point of the family generate, with the tokens of the longest prompt, and as many sequences as prompts, or
// as beams of a single one. Without prompts of their own, one for each sequence of the batch, they are random.
absl::StatusOr<GenerationCase> GenerationAt(const Point& at, Inputs& in,
                                            const std::vector<models::TokenIds>& prompts = {},
                                            const TextRules& rules = {});
// Phases, rates and figures of a generation of these sequences, which counts real tokens alone.
void DescribeGeneration(const Point& at, const std::vector<workload::SequenceTokens>& sequences,
                        const std::shared_ptr<GenerationCase>& generation, Case& built);
// The same of one that nothing ends.
void DescribeGeneration(const Point& at, const std::shared_ptr<GenerationCase>& generation, Case& built);

// A family of generations; `generate_at` gives each point as one of the family generate.
FamilyOf<GenerationCase> GenerationFamily(std::string name, std::string doc,
                                          const Family::PointFunction& generate_at = std::identity());

// A point of the family generate, for families that are others of its points.
Point GenerationPoint();
// The one with the model of --checkpoint, `prompt` tokens and `batch` sequences, otherwise as `at`, which may lack
// axes.
Point CheckpointPoint(const Point& at, std::size_t prompt, std::size_t batch = 1);

}  // namespace roofbench
