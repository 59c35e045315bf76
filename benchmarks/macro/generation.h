// SPDX-License-Identifier: Apache-2.0
// A generation as a case: its phases are reading the prompt and making every token after the first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "benchmarks/macro/language_model.h"
#include "lib/models/generation/generation.h"

namespace roofbench {

// The text of the model without a draft.
struct PlainText {
  models::TokenIds ids = {};
  double decode_seconds = 0;
};

struct GenerationCase {
  std::shared_ptr<const LoadedModel> model;
  std::shared_ptr<const LoadedModel> draft;  // may be null
  models::Generation generation;
  std::optional<int64_t> attention;       // DecoderModel::AttentionBackend of the last token
  std::optional<double> prepare_seconds;  // of DecoderModel::Prepare, on a GPU
  PlainText plain = {};                   // with a draft
  int64_t library_kernels = 0;            // DecoderModel::LibraryKernels of the prompt

  void Run(timing::PhaseMarker& marker);
};

// new and sampling.
std::vector<AxisSpec> ChoiceAxes();

// Rules other than greedy tokens up to the limit.
struct TextRules {
  bool one_prompt = false;         // random, the same for all sequences
  models::TokenIds stop_ids = {};  // none: the amount of work is known
  models::BeamOptions beams = {};
  std::optional<Point> draft = {};  // of the family generate
  int64_t guesses = 0;              // of the draft
};

// `at`: a point of the family generate with the length of the longest prompt, and a sequence for each prompt, or for
// each beam of a single one. Without `prompts` they are random.
absl::StatusOr<GenerationCase> GenerationAt(const Point& at, Inputs& in,
                                            const std::vector<models::TokenIds>& prompts = {},
                                            const TextRules& rules = {});
// Phases, rates and figures of a generation of these sequences, which count only real tokens.
void DescribeGeneration(const Point& at, const std::vector<workload::SequenceTokens>& sequences,
                        const std::shared_ptr<GenerationCase>& generation, Case& built);
// The same for a generation without stop ids.
void DescribeGeneration(const Point& at, const std::shared_ptr<GenerationCase>& generation, Case& built);

// A family of generations; `generate_at` converts its points to those of the family generate.
FamilyOf<GenerationCase> GenerationFamily(std::string name, std::string doc,
                                          const PointFunction& generate_at = std::identity());

// A point of the family generate, for families based on it.
Point GenerationPoint();
// The same with the model of --checkpoint, `prompt` tokens and `batch` sequences, and the values of `at`, which may
// lack axes.
Point CheckpointPoint(const Point& at, std::size_t prompt, std::size_t batch = 1);

}  // namespace roofbench
