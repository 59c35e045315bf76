// SPDX-License-Identifier: Apache-2.0
// A training step of a transformer: forward with its loss, backward, optimizer; its work and its memory.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"
#include "lib/workload/models/transformer.h"

namespace roofbench::workload {

// kInference keeps nothing for a backward pass; kForward keeps it to the end, though none follows.
enum class TrainingMode { kInference, kForward, kForwardBackward, kStep };
enum class AttentionKind { kNaive, kFused };  // kNaive writes the scores to memory and computes the masked half too
// kAdamWForeach takes each operation over all parameters at once, so that what it divides by is there for all of them.
enum class OptimizerKind { kSgd, kAdamW, kAdamWForeach };
// kMeanLogit is no loss but the mean of the logits, as a published script takes it: its gradient costs next to nothing.
enum class LossKind { kCrossEntropy, kMeanLogit };

// How the step is programmed, for the memory that it holds: operation by operation, or with fused operations.
enum class TrainingImplementation { kEager, kNative };

// Bytes by what they are for. Activations are what forward keeps for backward.
struct TrainingMemory {
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;
  double peak = 0;  // the most that is alive at once during the step
};

struct TransformerTraining {
  Transformer shape;
  double batch = 0;
  double context = 0;            // tokens of a sequence
  Dtype compute = Dtype::kFp32;  // of the products
  Dtype storage = Dtype::kFp32;  // of parameters, gradients and optimizer state; autocast: fp32 beside compute bf16
  AttentionKind attention = AttentionKind::kFused;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  LossKind loss = LossKind::kCrossEntropy;
  TrainingImplementation implementation = TrainingImplementation::kEager;
  // LibTorch's RMS norm is an operator of its own on a GPU alone; elsewhere it is made of others, in fp32.
  bool composed_norms = true;

  double Tokens() const { return batch * context; }
  bool HasMoments() const { return optimizer != OptimizerKind::kSgd; }
  bool IsMixed() const { return ElementBytes(compute) < ElementBytes(storage); }

  // FLOPs of all matrix products: the linear layers, 2·tokens·weights forward and twice that backward, and the two
  // products of attention, 4·batch·layers·heads·head_dim·context² forward (half of it, with the diagonal, where the
  // kernel skips what the mask hides) and twice that backward. What a kernel computes again is not counted.
  double ForwardMatmulFlops() const;
  double BackwardMatmulFlops() const { return 2 * ForwardMatmulFlops(); }

  // Each operation once: products, norms, rotations, softmax, gates, residual sums, loss, and casts under autocast.
  workload::Cost Forward() const;
  workload::Cost Backward() const;
  // AdamW in fp32 reads the gradient and updates parameter and two moments: 28 bytes a parameter; SGD 12.
  workload::Cost Optimizer() const;
  workload::Cost Step(TrainingMode mode) const;

  // Appendix B of the PaLM paper (arXiv:2204.02311): tokens · (6·N + 12·layers·heads·head_dim·context), N being all
  // parameters and nothing halved for the mask; a third of it forward alone.
  double PalmFlops(TrainingMode mode) const;

  TrainingMemory Memory(TrainingMode mode) const;
};

}  // namespace roofbench::workload
