// SPDX-License-Identifier: Apache-2.0
// Token generation, and generations that others published.
//
// One token reads all weights once, so that decode is bound by memory; a prompt is bound by arithmetic. The quick suite
// runs a quarter of Llama-3.2-1B: 0.6 GB in bf16, far beyond every cache of a desktop, and so few tokens that a step
// stays well below a second.

#include <string>

#include "absl/strings/str_cat.h"
#include "benchmarks/macro/generation.h"

namespace roofbench {
namespace {

const AxisList kServed = {"bf16", "int8", "int4", "llm_int8"};
const AxisList kFormats = {"fp32", "bf16", "fp16", "int8", "int4", "llm_int8"};

GridAxes Grid(const AxisList& impl, const AxisList& model, const AxisList& precision, const AxisList& batch,
              const AxisList& prompt, const AxisList& new_tokens) {
  return {{"impl", impl},   {"model", model},   {"precision", precision},
          {"batch", batch}, {"prompt", prompt}, {"new", new_tokens}};
}

void RunCompiled(GenerationCase& generation, timing::PhaseMarker& marker) { generation.Run(marker); }

const Registration kGenerate =
    GenerationFamily("generate", "reads a prompt and generates tokens, one after another")
        .Axes(ModelAxes())
        .Size("prompt", "tokens of a prompt")
        .Axes(ChoiceAxes())
        .Impl("compiled", OnCpu(RunCompiled))
        .Limits(kCompiledLimits)
        .When(SupportsCompiled)
        .Points(Suite::kQuick, Grid({"native"}, {"llama3_1b_4th"}, kServed, {1}, {32}, {8}))
        .Points(Suite::kStandard, Grid({"eager", "native"}, {"llama3_1b_4th"}, kFormats, {1}, {128}, {32}))
        .Points(Suite::kStandard, Grid({"eager"}, {"llama3_1b_4th"}, {"fp8"}, {1}, {128}, {32}))
        .Points(Suite::kStandard, Grid({"native"}, {"llama3_1b_4th"}, kServed, {8, 32}, {128}, {32}))
        .Points(Suite::kStandard, Grid({"native"}, {"mixtral_8x7b_32nd"}, {"bf16", "int8", "int4"}, {1}, {128}, {32}))
        .Points(Suite::kFull, Grid({"native"}, {"tinyllama_1b", "llama3_1b", "llama2_7b", "llama3_8b"}, kServed, {1, 8},
                                   {6, 512, 2048}, {1, 128}))
        .Points(Suite::kFull, Grid({"graph", "compiled"}, {"llama3_1b"}, {"bf16", "int8"}, {1}, {6}, {128}));

// An experiment that others published, as a point of `generate`, and their figures.
struct Experiment {
  const char* name;
  const char* model;
  const char* precision;
  const char* outliers;
  const char* batch;
  const char* prompt;
  const char* new_tokens;
  const char* sampling;
  const char* rate;      // our counter that counts tokens a second as they do
  double target;         // their value of it; 0: they published none
  double bandwidth = 0;  // GB/s; 0: they published none
  const char* activations = "default";
  // All sequences have one prompt, and their script counts the tokens of one sequence, its prompt among them.
  bool counts_one_sequence = false;
};

constexpr char kEndToEnd[] = "e2e_tokens/s";
constexpr char kAfterTheFirst[] = "tokens/s";

// gpt-fast's are of an A100-40GB (https://github.com/pytorch/pytorch/blob/main/benchmarks/gpt_fast/generate.py), whose
// rates have the prompt in them. bitsandbytes' are of an RTX 4090 and v0.45
// (https://github.com/bitsandbytes-foundation/bitsandbytes/blob/main/benchmarking/README.md): batch over the mean
// latency of a token; lengths are the defaults of its inference_benchmark.py. Its int8/int8_benchmark.py reads eight
// times "Below is a question. I need an answer.\n\nExplain machine learning: ", 16 tokens of Llama 3.
constexpr Experiment kExperiments[] = {
    {"gpt_fast_llama2_7b_bf16", "llama2_7b", "bf16", "6", "1", "6", "200", "top_k", kEndToEnd, 94, 1253},
    {"gpt_fast_llama2_7b_int8", "llama2_7b", "int8", "6", "1", "6", "200", "top_k", kEndToEnd, 144, 957},
    {"gpt_fast_mixtral_8x7b_int8", "mixtral_8x7b_16layers", "int8", "6", "1", "6", "200", "top_k", kEndToEnd, 175,
     1130},
    {"bitsandbytes_bf16", "llama3_8b", "bf16", "6", "1", "64", "64", "greedy", kAfterTheFirst, 47.46},
    {"bitsandbytes_int8", "llama3_8b", "llm_int8", "0", "1", "64", "64", "greedy", kAfterTheFirst, 45.39},
    {"bitsandbytes_int8_outliers", "llama3_8b", "llm_int8", "6", "1", "64", "64", "greedy", kAfterTheFirst, 22.26},
    {"bitsandbytes_bf16_batch8", "llama3_8b", "bf16", "6", "8", "64", "64", "greedy", kAfterTheFirst, 334.64},
    {"bitsandbytes_int8_batch8", "llama3_8b", "llm_int8", "0", "8", "64", "64", "greedy", kAfterTheFirst, 361.61},
    {"bitsandbytes_int8_outliers_batch8", "llama3_8b", "llm_int8", "6", "8", "64", "64", "greedy", kAfterTheFirst,
     164.55},
    {"bitsandbytes_bf16_batch32", "llama3_8b", "bf16", "6", "32", "64", "64", "greedy", kAfterTheFirst, 1054.35},
    {"bitsandbytes_int8_batch32", "llama3_8b", "llm_int8", "0", "32", "64", "64", "greedy", kAfterTheFirst, 1390.54},
    {"bitsandbytes_int8_outliers_batch32", "llama3_8b", "llm_int8", "6", "32", "64", "64", "greedy", kAfterTheFirst,
     624.94},
    {.name = "int8_benchmark",
     .model = "llama3_8b",
     .precision = "llm_int8",
     .outliers = "6",
     .batch = "8",
     .prompt = "16",
     .new_tokens = "128",
     .sampling = "greedy",
     .rate = kEndToEnd,
     .target = 0,
     .activations = "fp16",
     .counts_one_sequence = true},
};

// The experiment int8_benchmark computes in fp16, which only impl:eager does.
const AxisList kRates = [] {
  std::vector<std::string> names = NamesOf(kExperiments);
  std::erase(names, "int8_benchmark");
  return names;
}();

constexpr char kAsPublished[] = "published";

const Experiment& ExperimentAt(const Point& at) { return RowOf(kExperiments, at.Text("experiment")); }

Point GenerateAt(const Point& at) {
  const Experiment& experiment = ExperimentAt(at);
  // The value of the experiment, unless the axis has another one.
  const auto chosen = [&](const char* axis, const char* published) {
    const std::string& value = at.Text(axis);
    return value == kAsPublished || value == experiment.name ? published : value;
  };
  return GenerationPoint()
      .With("impl", at.Text("impl"))
      .With("model", chosen("model", experiment.model))
      .With("precision", experiment.precision)
      .With("outliers", chosen("outliers", experiment.outliers))
      .With("activations", chosen("activations", experiment.activations))
      .With("batch", experiment.batch)
      .With("prompt", experiment.prompt)
      .With("new", chosen("new", experiment.new_tokens))
      .With("sampling", experiment.sampling);
}

absl::StatusOr<GenerationCase> OperandsAt(const Point& at, Inputs& in) {
  return GenerationAt(GenerateAt(at), in, {}, {.one_prompt = ExperimentAt(at).counts_one_sequence});
}

void Describe(const Point& at, const std::shared_ptr<GenerationCase>& generation, Case& built) {
  const Point point = GenerateAt(at);
  DescribeGeneration(point, generation, built);
  const Experiment& experiment = ExperimentAt(at);
  if (experiment.target > 0) built.AddFigure(absl::StrCat("target_", experiment.rate), experiment.target);
  if (experiment.bandwidth > 0) built.AddFigure("target_bytes/s", experiment.bandwidth * 1e9);
  if (experiment.counts_one_sequence) built.AddFigure("script_tokens", point.Number("prompt") + point.Number("new"));
}

const Registration kPublished =
    GenerationFamily("published", "generations that others published, with their figures as target_tokens/s and so on",
                     GenerateAt)
        .Choice("experiment", NamesOf(kExperiments))
        .Choice("model", {kAsPublished, "tiny_llama", "tiny_mixtral"}, "another one to try the case with", kAsPublished)
        .Choice("new", {kAsPublished, "3"}, "fewer tokens to try the case with", kAsPublished)
        .Number("outliers", "another threshold of llm_int8; 0: no outliers", "experiment")
        .Choice("activations", {kAsPublished, "default", "fp16"}, "other ones with quantized weights", kAsPublished)
        .PredictAs(GenerateAt)
        .Operands(OperandsAt)
        .Details(Describe)
        .Impl("compiled", OnCpu(RunCompiled))
        .Limits(kCompiledLimits)
        .When([](const Point& at, const Device& device) { return SupportsCompiled(GenerateAt(at), device); })
        .Points(Suite::kFull, {{"impl", {"native", "eager", "graph"}}, {"experiment", kRates}})
        .Points(Suite::kFull, {{"impl", {"eager"}}, {"experiment", {"int8_benchmark"}}})
        .Points(Suite::kFull,
                {{"impl", {"compiled"}}, {"experiment", {"gpt_fast_llama2_7b_bf16", "gpt_fast_llama2_7b_int8"}}});

}  // namespace
}  // namespace roofbench
