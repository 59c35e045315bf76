// SPDX-License-Identifier: Apache-2.0
// The order of the operations in a decoder's blocks, for LibTorch's and ours.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/models/decoding/decoder_weights.h"
#include "lib/workload/models/decoder.h"

namespace roofbench::models {

// Runs blocks by the operations of an implementation, which has a residual stream, and vectors that each replaces: by a
// Norm of the stream; by queries, keys and values; by what they attend to; by the product of that; by the FeedForward
// of a norm. Add adds the vectors to the stream: the sum over the ranks with a bias, normed if the model norms it. End
// follows a component, but FeedForward ends its own. Threads that share an operation Wait for each other after it.
template <typename Operations>
void RunBlocks(const std::vector<LayerWeights>& layers, const Operations& run) {
  using enum workload::DecoderComponent;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerWeights& layer = layers[i];
    const auto block = run.Block(i);
    {
      [[maybe_unused]] const auto part = run.Part("attention");
      run.Norm(layer.attention_norm);
      run.End(kNorm);
      run.Qkv(layer);
      run.End(kQkv);
      run.Wait();
      run.Attend(layer, static_cast<int64_t>(i));
      run.End(kAttention);
      run.Wait();
      run.Out(layer);
      run.End(kOut);
      run.Wait();
      run.Add(layer.attention_out_norm, layer.out_bias);
    }
    [[maybe_unused]] const auto part = run.Part("feed forward");
    run.Norm(layer.mlp_norm);
    run.End(kNorm);
    run.FeedForward(layer);
    run.Wait();
    run.Add(layer.mlp_out_norm, {});
  }
}

}  // namespace roofbench::models
