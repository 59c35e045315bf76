// SPDX-License-Identifier: Apache-2.0
// Generations that others published, with their figure beside ours.

#include "benchmarks/macro/generation.h"
#include "lib/suite/named_rows.h"

namespace roofbench {
namespace {

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

Point GenerateAt(const Point& at) {
  const Experiment& experiment = RowOf(kExperiments, at.Text("experiment"));
  return GenerationPoint()
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

void Describe(const Point& at, const std::shared_ptr<GenerationCase>& generation, Case& built) {
  const Point point = GenerateAt(at);
  DescribeGeneration(point, point.Int("new"), generation, built);
  const double target = RowOf(kExperiments, at.Text("experiment")).target;
  if (target > 0) built.figures.emplace_back("target_tokens/s", [target] { return target; });
}

const Registration kPublished =
    GenerationFamily("published", "generations that others published, with their figure as target_tokens/s", GenerateAt)
        .Choice("experiment", NamesOf(kExperiments))
        .Choice("model", {"published", "tiny_llama", "tiny_mixtral"}, "another one to try the case with", "published")
        .PredictAs(GenerateAt)
        .Details(Describe)
        .Points(Suite::kFull, {{"impl", {"native", "eager", "graph"}}, {"experiment", NamesOf(kExperiments)}});

}  // namespace
}  // namespace roofbench
