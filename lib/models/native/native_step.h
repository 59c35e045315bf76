// SPDX-License-Identifier: Apache-2.0
// The parts of a native decoder's step inside a parallel region: the experts of a mixture, products, the residual
// stream, and attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/kernels/operators/products/fixed_point.h"
#include "lib/kernels/operators/products/int8_activations.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/models/block/rotary_table.h"
#include "lib/models/checkpoint/decoder_config.h"
#include "lib/models/decoding/int8_activations.h"
#include "lib/models/decoding/kv_cache.h"
#include "lib/models/decoding/stored_matrix.h"
#include "lib/models/size.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {

// Assigns tokens to the experts of a mixture. A slot is a pair of a token and an expert that takes it; the slots of an
// expert are contiguous, in the order of their tokens. Only the constructor allocates.
class ExpertPlan {
 public:
  // For up to `tokens` tokens, each of which goes to `active` of the experts. A single expert takes all, without
  // Choose.
  ExpertPlan(int64_t tokens, int64_t experts, int64_t active);

  // Set these to the router's logits of a token before Choose.
  std::span<float> logits() { return logits_; }
  // Chooses different experts for a token: those with the largest logits, weighted by the softmax over them. Logits
  // that are not finite result in weights of NaN.
  void Choose(int64_t token);
  // Fills the slots with the first `tokens` tokens; call Choose for each of them before.
  void Assign(int64_t tokens);

  int64_t begin(int64_t expert) const { return begins_[static_cast<std::size_t>(expert)]; }  // its first slot
  int64_t count(int64_t expert) const { return begin(expert + 1) - begin(expert); }
  int64_t token(int64_t slot) const { return tokens_[static_cast<std::size_t>(slot)]; }
  float weight(int64_t slot) const { return weights_[static_cast<std::size_t>(slot)]; }

 private:
  const int64_t active_;
  std::vector<float> logits_;                      // [experts]
  std::vector<char> is_taken_;                     // [experts], by the token that chooses
  std::vector<std::pair<int64_t, float>> chosen_;  // [tokens · active]: expert and weight
  std::vector<int64_t> begins_;                    // [experts + 1]
  std::vector<int64_t> tokens_;                    // of each slot
  std::vector<float> weights_;                     // of each slot
};

// A profiler range of work that all threads of a region share; the first thread records it.
class PartRange {
 public:
  template <typename... Name>
  explicit PartRange(const kernels::Worker& worker, Name... name) {
    if (worker.index() == 0) range_.emplace(name...);
  }

 private:
  std::optional<observe::Range> range_;
};

// y = matrix · x: x [m, columns] and y [m, rows] of one expert's matrix.
template <typename T>
struct RegionProduct {
  const StoredMatrix& matrix;
  int64_t expert = 0;
  const T* x = nullptr;
  int64_t m = 1;
  float* y = nullptr;
};

// Products by the kernel of the matrix's format, with rows divided among the threads. T: float or Bf16, the type of
// vectors. Every thread of a region makes the same calls. Only the constructor allocates, and the first products of
// quantized weights with more vectors than before.
template <typename T>
class RegionProducts {
 public:
  struct Sizes {
    int64_t products = 0;  // of a region
    int64_t vectors = 0;   // the largest m of a product
    int64_t widest = 0;    // the longest vector
  };
  // `tiles`: nullptr where there are none.
  RegionProducts(const Sizes& sizes, double outlier_threshold, const kernels::TileLinearKernels* tiles, int threads);

  // See DecoderModel.
  void ObserveStages(Int8Marker marker) { marker_ = std::move(marker); }

  // Before each region.
  void Restart();
  // The quantized products of the last region and their outlier columns.
  const OutlierTally& tally() const { return tally_; }
  // Its products by tiles.
  int64_t tile_products() const { return tile_products_; }

  // Makes the thread's copy of x, quantized or for tiles, if the product needs one; valid until its next call.
  const kernels::Int8Activations& Prepare(const kernels::Worker& worker, const RegionProduct<T>& work);

  // Computes y[:, rows] on the calling thread. `quantized`: by Prepare.
  void Multiply(const kernels::Worker& worker, const RegionProduct<T>& work, const kernels::Int8Activations& quantized,
                kernels::Range rows);

  // Calls body(Range) for this thread's share of a matrix's rows, or of `rows` pieces with equally many rows. `evenly`:
  // the thread gets the same share every time.
  void Divide(const kernels::Worker& worker, const RegionProduct<T>& work, int64_t rows,
              kernels::FunctionRef<void(kernels::Range)> body, bool evenly = false);

  // Computes this thread's rows of a product, and calls then(Range) for each piece of them.
  template <typename Then>
  void Run(const kernels::Worker& worker, const RegionProduct<T>& work, Then then, bool evenly = false) {
    const kernels::Int8Activations& quantized = Prepare(worker, work);
    const auto body = [&](kernels::Range rows) {
      Multiply(worker, work, quantized, rows);
      then(rows);
    };
    Divide(worker, work, work.matrix.rows, body, evenly);
  }

 private:
  // The memory of a thread.
  struct Scratch {
    kernels::Int8Activations quantized;
    kernels::FixedPointVectors fixed = {};
    at::Tensor packed = {};  // for tiles
    std::byte* Packed() const { return static_cast<std::byte*>(packed.mutable_data_ptr()); }
    int64_t product = 0;  // products divided in this region
  };

  // The first thread reports for all of them.
  void Mark(const kernels::Worker& worker, Int8Stage stage) const {
    if (marker_ && worker.index() == 0) marker_(stage);
  }

  // From so many rows of x on, int4 weights take less time converted to bf16 for registers than a few rows at a time: a
  // step of a quarter of Llama-3.2-1B took 22 and 22 ms with 12 sequences, 22 and 28 with 16, 32 and 52 with 32 (two
  // cores of a Xeon with AMX, 2026-11-30).
  static constexpr int64_t kLeastInt4Rows = 13;
  bool TakesTiles(const RegionProduct<T>& work) const {
    if (tiles_ == nullptr || work.matrix.MultipliesIntegers()) return false;
    if (work.matrix.format == workload::WeightFormat::kBf16) return work.m >= tiles_->least_rows;
    return work.matrix.format == workload::WeightFormat::kInt4 && tiles_->in_registers && work.m >= kLeastInt4Rows;
  }

  const double outlier_threshold_;
  const kernels::TileLinearKernels* const tiles_;
  Int8Marker marker_;
  OutlierTally tally_;
  int64_t tile_products_ = 0;
  kernels::RowShares shares_;
  std::vector<Scratch> scratch_;
};

// A product may be split at multiples of this number of rows.
int64_t RowGrain(const StoredMatrix& matrix);

extern template class RegionProducts<float>;
extern template class RegionProducts<kernels::Bf16>;

// The residual stream in fp32: a vector for each token of a step. Either the threads share it, and each adds its rows
// of a product; or each has a copy: if outputs are normed before they are added, every thread needs all of an output,
// and a copy saves another barrier.
class ResidualStream {
 public:
  // For up to `tokens` tokens of `d` elements.
  ResidualStream(int64_t tokens, int64_t d, float epsilon, int threads, bool is_own);

  bool is_own() const { return !normed_.empty(); }
  float* of(const kernels::Worker& worker) { return own_[is_own() ? Index(worker) : 0].data(); }

  // Sets it to rows ids[0] … ids[tokens - 1] of `table`, times `scale`, with a barrier if it is shared. T: float or
  // Bf16.
  template <typename T>
  void Begin(const kernels::Worker& worker, const T* table, const int64_t* ids, int64_t tokens, float scale);

  // `to` = the norm of each token, with a weight in fp32. T: float or Bf16.
  template <typename T>
  void Norm(const kernels::Worker& worker, const at::Tensor& weight, int64_t tokens, T* to);

  // Adds the norms of the vectors `added` to the thread's copy.
  void AddNormed(const kernels::Worker& worker, const at::Tensor& weight, int64_t tokens, const float* added);

 private:
  static std::size_t Index(const kernels::Worker& worker) { return static_cast<std::size_t>(worker.index()); }

  const int64_t d_;
  const float epsilon_;
  std::vector<std::vector<float>> own_;     // one, or one for each thread
  std::vector<std::vector<float>> normed_;  // one for each thread with a copy
};

// Attention of one or a few tokens of some sequences, each at its own length, including the norms of heads, the
// rotation and the update of the cache. T: float or Bf16, of the result, and of a cache that is not in 8 bits.
template <typename T>
struct TokenAttention {
  const DecoderSizes& n;
  float epsilon;       // of the norms of heads
  int64_t window = 0;  // the most keys that a token attends to; 0: all before it
  float scale = 0;     // scale and cap: see kernels::DecodeAttention
  float cap = 0;
  const RotaryTable& rope;
  const KvCache& cache;
  const std::vector<int64_t>& sequences;  // of the cache
  int64_t each = 1;                       // tokens of each of them
  int64_t layer = 0;
  const at::Tensor& query_norm;  // fp32 [head_dim]; undefined: none
  const at::Tensor& key_norm;
  float* qkv = nullptr;  // [sequences.size(), each, heads + 2 · kv_heads, head_dim]; overwritten
  float* y = nullptr;    // [sequences.size(), each, heads, head_dim]
  T* rounded = nullptr;  // like y
};

// Runs a range of the pairs of a sequence and a head of keys, [sequences.size() · kv_heads], on the calling thread.
// Does not allocate.
template <typename T>
void RunItems(const TokenAttention<T>& work, kernels::Range range);

extern template void RunItems(const TokenAttention<float>&, kernels::Range);
extern template void RunItems(const TokenAttention<kernels::Bf16>&, kernels::Range);

// The sizes of a decoder, and of its largest step.
struct Extents : DecoderSizes {
  Extents(const workload::Decoder& shape, int64_t most_tokens)
      : DecoderSizes(shape), tokens(most_tokens), slots(most_tokens * active_experts) {}

  int64_t tokens;
  int64_t slots;  // pairs of a token and an expert
};

// The memory of a thread. Every thread computes the norms of all tokens, which is faster than waiting for another.
template <typename T>
struct Scratch {
  std::vector<T> x = {};         // the input of a product, [tokens, d]
  std::vector<T> gathered = {};  // the vectors of an expert's tokens
  ExpertPlan plan;
  std::vector<kernels::Range> columns = {};  // this thread's columns of a hidden layer
};

}  // namespace roofbench::models
