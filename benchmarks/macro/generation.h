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
#include "lib/models/decoding/generation.h"

namespace roofbench {

struct GenerationCase {
  std::shared_ptr<const LoadedModel> model;
  models::Generation generation;
  std::optional<int64_t> attention;  // DecoderModel::AttentionBackend of the last token

  void Run(timing::PhaseMarker& marker);
};

// new and sampling.
std::vector<AxisSpec> ChoiceAxes();

// `at` is a point of the family generate, with the tokens of the longest prompt, and as many sequences as prompts, or
// as beams of a single one. Without prompts of their own, one for each sequence of the batch, they are random, and
// without stop ids nothing ends before the number of new tokens, so that the work is known.
absl::StatusOr<GenerationCase> GenerationAt(const Point& at, Inputs& in,
                                            const std::vector<models::TokenIds>& prompts = {},
                                            const models::TokenIds& stop_ids = {}, models::BeamOptions beams = {});
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
