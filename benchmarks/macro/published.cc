// Generations that others published, with their figure beside ours.

#include <algorithm>

#include "benchmarks/macro/generation.h"

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

absl::StatusOr<Case> BuildPublished(const Point& at, Inputs& in) {
  absl::StatusOr<Case> built = BuildGeneration(GenerateAt(at), in);
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
        .Grid(Suite::kFull, {{"impl", {"native", "eager", "graph"}}, {"experiment", ExperimentNames()}})
        .Supports([](const Point& at, const Device& device) { return LanguageModelSupports(GenerateAt(at), device); })
        .PredictAs(GenerateAt)
        .Cost([](const Point& at) {
          const Point point = GenerateAt(at);
          return StoredAt(point).GenerateCost(point.Number("batch"), point.Number("prompt"), point.Number("new"));
        })
        .Build(BuildPublished));

}  // namespace
}  // namespace roofbench
