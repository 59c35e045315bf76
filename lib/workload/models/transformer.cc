// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/transformer.h"

namespace roofbench::workload {

TransformerParameters Transformer::Parameters() const {
  TransformerParameters count{
      .embedding = vocab * d_model,
      .attention = layers * (2 * d_model * QueryWidth() + 2 * d_model * KvWidth()),
      .feed_forward = layers * 3 * d_model * d_ff,
      .norms = (2 * layers + 1) * d_model,
      .head = tied_head ? 0 : vocab * d_model,
  };
  count.matmul = count.attention + count.feed_forward + vocab * d_model;
  return count;
}

std::optional<Transformer> FindTransformer(std::string_view name) {
  for (const TransformerPreset& preset : kTransformerPresets) {
    if (preset.name == name) return preset.shape;
  }
  return std::nullopt;
}

}  // namespace roofbench::workload
