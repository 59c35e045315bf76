// SPDX-License-Identifier: Apache-2.0
// A generation whose tokens a draft guesses: its axes, which points can have one, and what such a case tells.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "benchmarks/macro/generation.h"

namespace roofbench {

// draft and guesses.
std::vector<AxisSpec> DraftAxes();
bool HasDraft(const Point& at);

// The draft's model as a point of the family generate, with a prompt of as many tokens.
Point DraftPoint(const Point& at, std::size_t prompt);
// Why a point with a draft and these prompts, the longest of which has `prompt` tokens, cannot run.
absl::Status SupportsDraft(const Point& at, std::size_t prompts, std::size_t prompt, const Device& device);

// The text that the model makes alone, by `plain`, which is run for it.
PlainText PlainTextOf(GenerationCase& plain);

// Costs and figures of a generation with a draft that has run, in place of those without one; `at` and `draft` are
// points of the family generate.
void DescribeDraft(const Point& at, const Point& draft, const std::shared_ptr<GenerationCase>& drafted, Case& built);

}  // namespace roofbench
