// Token generation: what a person who serves a model waits for.
//
// One token reads all weights once, so that decode is bound by memory; a prompt is bound by arithmetic. The quick suite
// runs a quarter of Llama-3.2-1B: 0.6 GB in bf16, far beyond every cache of a desktop, and so few tokens that a step
// stays well below a second.

#include "benchmarks/macro/generation.h"

namespace roofbench {
namespace {

const Registration kGenerateFamily(
    LanguageModelFamily("generate", "reads a prompt and generates tokens, one after another")
        .Axis({.name = "prompt", .doc = "tokens of a prompt"})
        .Axis({.name = "new", .doc = "tokens to generate"})
        .Axis({.name = "sampling",
               .choices = {"greedy", "top_k"},
               .default_value = "greedy",
               .doc = "top_k: of the 200 most likely, at temperature 0.8"})
        .Grid(Suite::kQuick, {{"model", {"llama3_1b_4th"}},
                              {"precision", {"bf16", "int8", "int4", "llm_int8"}},
                              {"prompt", {"32"}},
                              {"new", {"8"}}})
        .Grid(Suite::kStandard, {{"impl", {"eager", "native"}},
                                 {"model", {"llama3_1b_4th"}},
                                 {"precision", {"fp32", "bf16", "fp16", "int8", "int4", "llm_int8"}},
                                 {"prompt", {"128"}},
                                 {"new", {"32"}}})
        .Grid(Suite::kStandard, {{"model", {"llama3_1b_4th"}},
                                 {"precision", {"bf16", "int8", "int4", "llm_int8"}},
                                 {"batch", {"8", "32"}},
                                 {"prompt", {"128"}},
                                 {"new", {"32"}}})
        .Grid(Suite::kStandard, {{"model", {"mixtral_8x7b_32nd"}},
                                 {"precision", {"bf16", "int8", "int4"}},
                                 {"prompt", {"128"}},
                                 {"new", {"32"}}})
        .Grid(Suite::kFull, {{"model", {"tinyllama_1b", "llama3_1b", "llama2_7b", "llama3_8b"}},
                             {"precision", {"bf16", "int8", "int4", "llm_int8"}},
                             {"batch", {"1", "8"}},
                             {"prompt", {"6", "512", "2048"}},
                             {"new", {"1", "128"}}})
        .Grid(Suite::kFull, {{"impl", {"graph"}},
                             {"model", {"llama3_1b"}},
                             {"precision", {"bf16", "int8"}},
                             {"prompt", {"6"}},
                             {"new", {"128"}}})
        .Supports(LanguageModelSupports)
        .Cost([](const Point& at) {
          return StoredAt(at).GenerateCost(at.Number("batch"), at.Number("prompt"), at.Number("new"));
        })
        .Build([](const Point& at, Inputs& in) { return BuildGeneration(at, in); }));

}  // namespace
}  // namespace roofbench
