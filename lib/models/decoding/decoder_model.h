// SPDX-License-Identifier: Apache-2.0
// A decoder: reads tokens, and returns the logits of the next one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lib/aten/measured_choice.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "lib/models/decoding/decoder_weights.h"
#include "lib/models/decoding/int8_activations.h"
#include "lib/models/decoding/kv_cache.h"

namespace roofbench::models {

// Called when a component of a step ends. It began at the end of the previous one.
using ComponentMarker = std::function<void(workload::DecoderComponent)>;

// y = x · weightᵀ · scale, for bf16 vectors x [tokens, columns], an int8 matrix [rows, columns] and fp32 scales [rows],
// where LibTorch's operators would convert the matrix to bf16 first. Returns an undefined tensor for other vectors.
using Int8Product = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale)>;

// `batch` sequences with a preallocated cache of keys and values. They have one length until AppendTo appends to some
// of them only.
class DecoderModel {
 public:
  virtual ~DecoderModel() = default;

  // Appends tokens [batch, n] (int64, contiguous) to the sequences and returns the logits after the last of each: fp32
  // [batch, vocab], valid until the next call. The tokens must fit in the cache.
  virtual const at::Tensor& Append(const at::Tensor& tokens) = 0;
  // Appends one token to each sequence: int64 [batch], contiguous, on the device of the weights. Does not synchronize.
  virtual const at::Tensor& AppendOne(const at::Tensor& tokens) = 0;
  // Appends to some of the sequences, each at its own length. `tokens` (int64 [n], contiguous, on the device of the
  // weights) are the pieces' tokens in order; the pieces belong to different sequences, in ascending order. Returns the
  // logits after each piece, fp32 [pieces, vocab], valid until the next call. It does no padding, and no work for the
  // other sequences.
  virtual const at::Tensor& AppendTo(const std::vector<Piece>& pieces, const at::Tensor& tokens) = 0;
  // Like AppendOne for each token, but at once: returns the logits after each, [batch, n, vocab].
  virtual at::Tensor AppendAll(const at::Tensor& tokens) = 0;

  // Does the setup that libraries need to read prompts of `tokens` tokens into `sequences` sequences, and measures what
  // they choose between, so that none pays for it. The tokens after a prompt need none.
  virtual void Prepare(int64_t /*sequences*/, int64_t /*tokens*/) {}
  // LibTorch's attention kernel for one token over `keys` keys (lib/aten/attention.h); nullopt if LibTorch does not run
  // it.
  virtual std::optional<int64_t> AttentionBackend(int64_t /*keys*/) const { return std::nullopt; }

  // The mean number of outlier columns in the LLM.int8() products of the last Append or AppendOne; nullopt if there are
  // none, or if a GPU does not report it to the host.
  virtual std::optional<double> OutlierColumns() const { return std::nullopt; }
  // The products of the last call that our kernels computed by tiles.
  virtual int64_t TileProducts() const { return 0; }
  // The products and attentions that LibTorch computed instead, because it was measured to be faster.
  virtual int64_t LibraryKernels() const { return 0; }
  // Uses `product` for int8 weights and the vectors that it supports, in decoders by LibTorch's operations.
  virtual void MultiplyInt8By(Int8Product /*product*/) {}

  // The keys and values of the tokens that were read; nullptr if they are not kept in this form.
  virtual const KvCache* keys_and_values() const { return nullptr; }

  // The common length of the sequences in the cache; Truncate keeps their first `length` tokens.
  virtual int64_t length() const = 0;
  virtual void Truncate(int64_t length) = 0;
  // Sequence i continues as sequence from[i], as beam search needs it. All must have one length.
  virtual void Reorder(const std::vector<int64_t>& from) = 0;
  // Fills the cache with seeded random keys and values up to `length`, to measure at a depth without reading a prompt.
  virtual void FillRandom(int64_t length, uint64_t seed) = 0;

  // Calls `marker`, on the thread that calls Append or AppendOne, at the end of every component: once a layer, or once
  // an expert. If threads share a step, the components are those of that thread, and include waiting for the others.
  virtual void ObserveComponents(ComponentMarker marker) = 0;

  // Calls `marker`, on the thread that calls Append or AppendOne, at the end of every stage of its products with 8-bit
  // vectors, LLM.int8() among them; our kernel has the first kFusedInt8Stages. If threads share a product, the
  // stages are those of that thread. nullptr removes the callback.
  virtual void ObserveStages(Int8Marker marker) = 0;
};

// The capacity of a decoder, and the tiles of the native one.
struct DecoderRoom {
  int64_t batch = 1;     // sequences
  int64_t capacity = 1;  // tokens of each
  int64_t piece = 1;     // tokens of each that AppendAll reads in one step
  const kernels::TileLinearKernels* tiles = kernels::TileLinearKernelsHere();  // nullptr: none
  // Of the fastest decoder: between our kernels for prompts and LibTorch's, where there are tiles; nullptr: ours. Ranks
  // take ours, since results that all of them compute must be the same.
  MeasuredChoice* choice = MeasuredChoice::OfProcess();
};

}  // namespace roofbench::models
