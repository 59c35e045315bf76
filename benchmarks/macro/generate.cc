// SPDX-License-Identifier: Apache-2.0
// Token generation: what a person who serves a model waits for.
//
// One token reads all weights once, so that decode is bound by memory; a prompt is bound by arithmetic. The quick suite
// runs a quarter of Llama-3.2-1B: 0.6 GB in bf16, far beyond every cache of a desktop, and so few tokens that a step
// stays well below a second.

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

const Registration kGenerate =
    GenerationFamily("generate", "reads a prompt and generates tokens, one after another")
        .Axes(ModelAxes())
        .Size("prompt", "tokens of a prompt")
        .Axes(ChoiceAxes())
        .Points(Suite::kQuick, Grid({"native"}, {"llama3_1b_4th"}, kServed, {1}, {32}, {8}))
        .Points(Suite::kStandard, Grid({"eager", "native"}, {"llama3_1b_4th"}, kFormats, {1}, {128}, {32}))
        .Points(Suite::kStandard, Grid({"native"}, {"llama3_1b_4th"}, kServed, {8, 32}, {128}, {32}))
        .Points(Suite::kStandard, Grid({"native"}, {"mixtral_8x7b_32nd"}, {"bf16", "int8", "int4"}, {1}, {128}, {32}))
        .Points(Suite::kFull, Grid({"native"}, {"tinyllama_1b", "llama3_1b", "llama2_7b", "llama3_8b"}, kServed, {1, 8},
                                   {6, 512, 2048}, {1, 128}))
        .Points(Suite::kFull, Grid({"graph"}, {"llama3_1b"}, {"bf16", "int8"}, {1}, {6}, {128}));

}  // namespace
}  // namespace roofbench
