// SPDX-License-Identifier: Apache-2.0
// A decoder-only transformer for training: token embedding, pre-norm blocks (RMSNorm, causal attention with RoPE,
// SwiGLU), final norm and head; and its layers as functions that autograd can follow.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

#include "lib/aten/measured_choice.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "lib/models/block/forward_hooks.h"
#include "lib/models/block/operations.h"
#include "lib/models/block/rotary_table.h"
#include "lib/workload/models/transformer.h"

namespace roofbench::models {

enum class Attention { kNaive, kSdpa };

// softmax(q·kᵀ / sqrt(head_dim) + causal mask) · v for q, k, v [batch, heads, tokens, head_dim]; k and v may have fewer
// heads (a divisor: grouped queries) with kSdpa. kNaive writes the scores to memory; kSdpa is LibTorch's fused kernel.
at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Attention kind);

// The operations of a block, which a model can exchange. Autograd can follow each of them.
struct LayerFunctions {
  // x [..., in] · weight [out, in]ᵀ
  at::Tensor (*linear)(const at::Tensor& x, const at::Tensor& weight);
  at::Tensor (*norm)(const at::Tensor& x, const at::Tensor& weight, double epsilon);
  // Causal attention of positions 0, 1, …. q [batch, tokens, heads · head_dim], k and v [batch, tokens, kv_heads ·
  // head_dim], before their rotation; the result is like q.
  at::Tensor (*attention)(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RotaryTable& rope,
                          int64_t heads, Attention kind);
  // silu(gate) ∘ up
  at::Tensor (*gate)(const at::Tensor& gate, const at::Tensor& up);
  // Mean over all tokens of -log softmax(logits)[target]; logits [tokens, vocab], targets [tokens]. May overwrite the
  // logits.
  at::Tensor (*cross_entropy)(const at::Tensor& logits, const at::Tensor& targets);
};

// LibTorch's own operations.
const LayerFunctions& EagerLayers();

// How NativeLayers and FastestLayers multiply in bf16. There is one for the process, since a layer is a function.
struct LayerProducts {
  const kernels::TileLinearKernels* tiles = kernels::TileLinearKernelsHere();  // nullptr: none
  MeasuredChoice* choice = MeasuredChoice::OfProcess();  // of FastestLayers; nullptr: always tiles
  std::atomic<int64_t> by_tiles = 0;                     // so far
  std::atomic<int64_t> by_library = 0;                   // that LibTorch computed instead, because it was faster

  static LayerProducts& OfProcess();

  struct Counts {
    int64_t by_tiles = 0;
    int64_t by_library = 0;
  };
  Counts Now() const { return {by_tiles, by_library}; }

  // Sets `counts` to the products computed while it lives.
  class Counter {
   public:
    explicit Counter(Counts& counts) : counts_(counts) {}
    Counter(const Counter&) = delete;
    Counter& operator=(const Counter&) = delete;
    ~Counter() {
      const Counts now = OfProcess().Now();
      counts_ = {now.by_tiles - first_.by_tiles, now.by_library - first_.by_library};
    }

   private:
    Counts& counts_;
    const Counts first_ = OfProcess().Now();
  };
};

// For a CPU: products by oneDNN, those in bf16 by tiles where there are some, attention and the rest by our kernels.
// Each layer is one autograd function that keeps only what backward needs. Under autocast each layer takes and returns
// bf16: a norm rounds its result once, not for each product that reads it, and the gradient of the logits is bf16 from
// the start. The residual stream keeps the parameters' precision. Attention keeps q, k, v, the result and one number
// per query for backward; Attention::kNaive runs LibTorch's operations.
const LayerFunctions& NativeLayers();

// The same, but with LibTorch's products in bf16 where those were measured to be faster than tiles.
const LayerFunctions& FastestLayers();

// GELU(x [rows, in] · weight [out, in]ᵀ + bias [out]) likewise. Backward skips the gradient of an x that does not
// require it.
at::Tensor NativeLinearGelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
// The same by the faster products.
at::Tensor FastestLinearGelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

struct TransformerBlock {
  at::Tensor attention_norm;     // [d_model]
  at::Tensor query, key, value;  // [heads · head_dim or kv_heads · head_dim, d_model]
  at::Tensor output;             // [d_model, heads · head_dim]
  at::Tensor feed_forward_norm;  // [d_model]
  at::Tensor gate, up;           // [d_ff, d_model]
  at::Tensor down;               // [d_model, d_ff]

  // All of the above, in this order. Self: TransformerBlock, const or not.
  template <typename Self>
  static auto Tensors(Self& block) {
    return std::array{&block.attention_norm,    &block.query, &block.key, &block.value, &block.output,
                      &block.feed_forward_norm, &block.gate,  &block.up,  &block.down};
  }
};

// kMeanLogit: the mean of the logits instead of a loss.
enum class Loss { kCrossEntropy, kMeanLogit };

// Settings that all blocks share.
struct TransformerContext {
  int64_t heads = 0;
  Attention attention = Attention::kSdpa;
  double norm_epsilon = 1e-5;
  const LayerFunctions* layers = &EagerLayers();
  Loss loss = Loss::kCrossEntropy;
  at::Device device = at::kCPU;  // of the parameters, and so of RoPE's tables
  ForwardHooks* hooks = &NoHooks();
};

// x [batch, tokens, d_model] -> the same shape.
at::Tensor RunBlock(const TransformerBlock& block, const RotaryTable& rope, const TransformerContext& context,
                    const at::Tensor& x);

// The loss of logits [batch, tokens, vocab]: their mean cross-entropy with targets [batch, tokens], or their mean.
at::Tensor LossOf(const TransformerContext& context, const at::Tensor& logits, const at::Tensor& targets);

class TransformerModel {
 public:
  // Makes a parameter of this shape: normal with the deviation, or ones if the deviation is 0 (norms).
  using MakeParameter = std::function<at::Tensor(at::IntArrayRef shape, double deviation)>;

  // For sequences of up to `context_length` tokens. RoPE's theta is 10 000.
  TransformerModel(const workload::Transformer& shape, int64_t context_length, const TransformerContext& context,
                   const MakeParameter& make);

  // tokens [batch, tokens] (int64) -> logits [batch, tokens, vocab].
  at::Tensor Logits(const at::Tensor& tokens) const;
  // The context's loss for targets [batch, tokens].
  at::Tensor Loss(const at::Tensor& tokens, const at::Tensor& targets) const;

  // In the order embedding, blocks, final norm, head. The units are the embedding, each block, and norm with head.
  std::vector<at::Tensor> Parameters() const;

  at::Tensor embedding;  // [vocab, d_model]
  std::vector<TransformerBlock> blocks;
  at::Tensor norm;  // [d_model]
  at::Tensor head;  // [vocab, d_model]
  const RotaryTable rope;
  const TransformerContext context;
};

}  // namespace roofbench::models
