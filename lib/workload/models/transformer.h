// SPDX-License-Identifier: Apache-2.0
// The shape of a decoder-only transformer: pre-norm blocks of RMSNorm, causal multi-head attention with RoPE, and
// SwiGLU.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace roofbench::workload {

// Exact numbers of parameters, by component. No linear layer has a bias.
struct TransformerParameters {
  double embedding = 0;     // vocab · d_model
  double attention = 0;     // layers · (2·d_model² + 2·d_model·kv_heads·head_dim)
  double feed_forward = 0;  // layers · 3·d_model·d_ff
  double norms = 0;         // (2·layers + 1) · d_model
  double head = 0;          // vocab · d_model, 0 where the head is the embedding (tied)

  double Total() const { return embedding + attention + feed_forward + norms + head; }
  // Those that a token is multiplied with: all but the embedding (a look-up) and the norms. A tied head counts.
  double matmul = 0;
  // Each component's name beside its count.
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

// A shape with a name. The vocabulary (10 000) and the training sizes are those of Stanford CS336, assignment 2; 10B is
// of its 2026 edition.
struct TransformerPreset {
  std::string_view name;
  Transformer shape;
};

inline constexpr std::array<TransformerPreset, 6> kTransformerPresets = {{
    {"small", {.d_model = 768, .d_ff = 3072, .layers = 12, .heads = 12, .vocab = 10000}},
    {"medium", {.d_model = 1024, .d_ff = 4096, .layers = 24, .heads = 16, .vocab = 10000}},
    {"large", {.d_model = 1280, .d_ff = 5120, .layers = 36, .heads = 20, .vocab = 10000}},
    {"xl", {.d_model = 1600, .d_ff = 6400, .layers = 48, .heads = 25, .vocab = 10000}},
    {"2.7B", {.d_model = 2560, .d_ff = 10240, .layers = 32, .heads = 32, .vocab = 10000}},
    {"10B", {.d_model = 4608, .d_ff = 12288, .layers = 50, .heads = 36, .vocab = 10000}},
}};

// nullopt: no preset has the name.
std::optional<Transformer> FindTransformer(std::string_view name);

}  // namespace roofbench::workload
