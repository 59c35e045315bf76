// SPDX-License-Identifier: Apache-2.0
// The shape of a decoder-only transformer: pre-norm blocks of RMSNorm, causal multi-head attention with RoPE, and
// SwiGLU.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"
#include "lib/workload/models/sharded_memory.h"

namespace roofbench::workload {

// Exact numbers of parameters, by component. The linear layers have no bias.
struct TransformerParameters {
  double embedding = 0;     // vocab · d_model
  double attention = 0;     // layers · (2·d_model² + 2·d_model·kv_heads·head_dim)
  double feed_forward = 0;  // layers · 3·d_model·d_ff
  double norms = 0;         // (2·layers + 1) · d_model
  double head = 0;          // vocab · d_model, 0 where the head is the embedding (tied)

  double Total() const { return embedding + attention + feed_forward + norms + head; }
  // The parameters that multiply a token: all but the embedding (a look-up) and the norms. A tied head counts.
  double matmul = 0;
  // Each component's name with its count.
  std::array<std::pair<std::string_view, double>, 5> ByComponent() const {
    return {{{"embedding", embedding},
             {"attention", attention},
             {"feedforward", feed_forward},
             {"norm", norms},
             {"head", head}}};
  }
};

struct Transformer {
  double d_model = 0;
  double d_ff = 0;
  double layers = 0;
  double heads = 0;
  double vocab = 0;
  double kv_heads = 0;   // 0: as many as heads; fewer: grouped-query attention
  double head_size = 0;  // 0: d_model / heads
  bool tied_head = false;

  double HeadDim() const { return head_size > 0 ? head_size : d_model / heads; }
  double KvHeads() const { return kv_heads > 0 ? kv_heads : heads; }
  double QueryWidth() const { return heads * HeadDim(); }
  double KvWidth() const { return KvHeads() * HeadDim(); }
  TransformerParameters Parameters() const;
};

// A named shape. The vocabulary (10 000) and the training sizes are those of Stanford CS336, assignment 2; 10B is from
// its 2026 edition, which also has the name xl for the shape that was 2.7B.
struct TransformerPreset {
  std::string_view name;
  Transformer shape;
};

inline constexpr std::array<TransformerPreset, 7> kTransformerPresets = {{
    {"small", {.d_model = 768, .d_ff = 3072, .layers = 12, .heads = 12, .vocab = 10000}},
    {"medium", {.d_model = 1024, .d_ff = 4096, .layers = 24, .heads = 16, .vocab = 10000}},
    {"large", {.d_model = 1280, .d_ff = 5120, .layers = 36, .heads = 20, .vocab = 10000}},
    {"xl", {.d_model = 1600, .d_ff = 6400, .layers = 48, .heads = 25, .vocab = 10000}},
    {"2.7B", {.d_model = 2560, .d_ff = 10240, .layers = 32, .heads = 32, .vocab = 10000}},
    {"xl_2026", {.d_model = 2560, .d_ff = 10240, .layers = 32, .heads = 32, .vocab = 10000}},
    {"10B", {.d_model = 4608, .d_ff = 12288, .layers = 50, .heads = 36, .vocab = 10000}},
}};

// nullopt: no preset has the name.
std::optional<Transformer> FindTransformer(std::string_view name);

// A training step of a transformer: forward with its loss, backward, optimizer; its work and its memory.

// kInference does not keep anything for a backward pass; kForward keeps it to the end, although no backward follows.
enum class TrainingMode { kInference, kForward, kForwardBackward, kStep };
enum class AttentionKind { kNaive, kFused };  // kNaive writes the scores to memory and computes the masked half too
// kAdamWForeach applies each operation to all parameters at once, so that the denominators of all of them are live
// together.
enum class OptimizerKind { kSgd, kAdamW, kAdamWForeach };
// kMeanLogit replaces the loss by the mean of the logits, as in a published script: its gradient costs almost nothing.
enum class LossKind { kCrossEntropy, kMeanLogit };

// The implementation of the step, which sets its memory: operation by operation, or with fused operations.
enum class TrainingImplementation { kEager, kNative };

// Bytes by purpose. Activations are the tensors that forward keeps for backward.
struct TrainingMemory {
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;
  double peak = 0;  // the most that is live at once during the step
};

struct TransformerTraining {
  Transformer shape;
  double batch = 0;
  double context = 0;            // tokens per sequence
  Dtype compute = Dtype::kFp32;  // of the products
  Dtype storage = Dtype::kFp32;  // of parameters, gradients and optimizer state; autocast: fp32 with compute bf16
  AttentionKind attention = AttentionKind::kFused;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  LossKind loss = LossKind::kCrossEntropy;
  TrainingImplementation implementation = TrainingImplementation::kEager;
  // LibTorch's RMS norm is a single operator on a GPU alone; elsewhere it is composed of others, in fp32.
  bool composed_norms = true;
  bool tiles = false;  // of a native implementation's products in bf16

  double Tokens() const { return batch * context; }
  bool HasMoments() const { return optimizer != OptimizerKind::kSgd; }
  bool IsMixed() const { return ElementBytes(compute) < ElementBytes(storage); }

  // FLOPs of all matrix products, of which backward has twice as many: the linear layers, 2·tokens·weights, and the two
  // products of attention, 4·batch·layers·heads·head_dim·context² (half of it, with the diagonal, where the kernel
  // skips the masked half). Recomputation in a kernel is not counted.
  double ForwardMatmulFlops() const;

  // Each operation once: products, norms, rotations, softmax, gates, residual sums, loss, and casts under autocast.
  workload::Cost Forward() const;
  workload::Cost Backward() const;
  // AdamW in fp32 reads the gradient and updates parameter and two moments: 28 bytes per parameter; SGD 12.
  workload::Cost Optimizer() const;
  workload::Cost Step(TrainingMode mode) const;

  // Appendix B of the PaLM paper (arXiv:2204.02311): tokens · (6·N + 12·layers·heads·head_dim·context), N being all
  // parameters, without halving for the mask; a third of it for forward alone.
  double PalmFlops(TrainingMode mode) const;

  TrainingMemory Memory(TrainingMode mode) const;
  // The embedding, the layers, and the head with the last norm. `computes` is that of a step in one type.
  std::vector<StepUnit> Units() const;
  // The peak of a rank that shares them with others.
  double ShardedPeak(double ranks) const;

 private:
  // The tokens' vectors of a layer, packed for tiles while a product reads them.
  double PackedBytes() const;
  // Kept for backward: by a layer, of it by its gate, by the head, and by the loss.
  struct Kept {
    double layer, gate, head, logits;
  };
  Kept KeptBytes() const;
  double LossGradients() const;
};

}  // namespace roofbench::workload
