// SPDX-License-Identifier: Apache-2.0
// Prints the presets with their closed-form number of parameters, one JSON object per line, for test_flop_counter.py.

#include <cstdio>

#include "lib/workload/models/transformer.h"

int main() {
  for (const auto& [name, shape] : roofbench::workload::kTransformerPresets) {
    std::printf(
        R"({"name": "%.*s", "d_model": %.0f, "d_ff": %.0f, "layers": %.0f, "heads": %.0f, "vocab": %.0f, "parameters": %.0f})"
        "\n",
        static_cast<int>(name.size()), name.data(), shape.d_model, shape.d_ff, shape.layers, shape.heads, shape.vocab,
        shape.Parameters().Total());
  }
  return 0;
}
