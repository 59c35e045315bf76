// SPDX-License-Identifier: Apache-2.0
// A model with all that a configuration can ask for.
#pragma once

#include "lib/models/checkpoint/decoder_config.h"

namespace roofbench::models {

// A window of 6 keys of the first layer; biases, and norms of heads and of outputs; another gate, scale and bound.
inline void AddEverything(DecoderConfig& config) {
  config.shape.window = 6;
  config.shape.whole_layers = 1;
  config.whole_layers = {1};
  config.shape.attention_bias = config.shape.head_norms = true;
  config.shape.output_norms = config.shape.fp32_norms = true;
  config.gate = Gate::kGeluTanh;
  config.embedding_scale = 3;
  config.score_scale = 0.25;
  config.score_cap = 4;
  config.logit_cap = 2;
}

}  // namespace roofbench::models
