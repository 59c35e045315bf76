// SPDX-License-Identifier: Apache-2.0
// A decoder that reads tokens and says what may follow.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/models/decoding/decoder_weights.h"
#include "lib/models/decoding/kv_cache.h"
#include "lib/models/decoding/llm_int8.h"

namespace roofbench::models {

// Told that a component of a step ends now, which began where the last one ended.
using ComponentMarker = std::function<void(workload::DecoderComponent)>;

// What multiplies vectors x [tokens, columns] in bf16 with an int8 matrix [rows, columns] and its scales [rows] in
// fp32, y = x · weightᵀ · scale, where LibTorch's operators would make the matrix in bf16 first. Undefined: not such
// vectors.
using Int8Product = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale)>;

// `batch` sequences side by side, with a cache for keys and values that was allocated at once. They are of one length
// as long as nothing is appended to some of them only.
class DecoderModel {
 public:
  virtual ~DecoderModel() = default;

  // Appends tokens [batch, n] (int64, contiguous) to the sequences and returns the logits of the last of each: fp32
  // [batch, vocab], valid until the next call. The tokens must fit the cache.
  virtual const at::Tensor& Append(const at::Tensor& tokens) = 0;
  // Appends one token of each sequence: int64 [batch], contiguous, on the device of the weights. Waits for no device.
  virtual const at::Tensor& AppendOne(const at::Tensor& tokens) = 0;
  // Appends to some of the sequences, each at its own length: `tokens` (int64 [n], contiguous, on the device of the
  // weights) are those of the first piece, then those of the second, and so on. The pieces are of different sequences,
  // in ascending order. Returns the logits of the last token of each piece, fp32 [pieces, vocab], valid until the next
  // call. There is no padding, and no work for the other sequences.
  virtual const at::Tensor& AppendTo(const std::vector<Piece>& pieces, const at::Tensor& tokens) = 0;
  // As Append, but the logits after each of the tokens: [batch, n, vocab].
  virtual at::Tensor AppendAll(const at::Tensor& tokens) = 0;

  // What libraries do once for every number of keys that a token meets, for those from `first` to `last`. Its time is
  // no token's.
  virtual void Prepare(int64_t /*first*/, int64_t /*last*/) {}
  // LibTorch's choice of a kernel for the attention of one token over `keys` keys (lib/aten/attention_backend.h);
  // nullopt: it is not LibTorch's.
  virtual std::optional<int64_t> AttentionBackend(int64_t /*keys*/) const { return std::nullopt; }

  // Columns of outliers in a product of LLM.int8(), in the mean over those of the last Append or AppendOne; nullopt
  // where there are none, or a GPU's host does not learn it.
  virtual std::optional<double> OutlierColumns() const { return std::nullopt; }
  // From now on `product` multiplies with int8 weights what it takes, in decoders of LibTorch's operations.
  virtual void MultiplyInt8By(Int8Product /*product*/) {}

  // Tokens of every sequence in the cache, which are as many; and the cache as if only their first `length` had been
  // read.
  virtual int64_t length() const = 0;
  virtual void Truncate(int64_t length) = 0;
  // Sequence i goes on as sequence from[i], all being of one length: what a search that gave a text up goes on with.
  virtual void Reorder(const std::vector<int64_t>& from) = 0;
  // Fills the cache with seeded random keys and values up to `length`, for measurements at a depth that no prompt is
  // read for.
  virtual void FillRandom(int64_t length, uint64_t seed) = 0;

  // From now on `marker` is told, on the thread that calls Append or AppendOne, of every component of it in turn. One
  // is told as often as it comes: once a layer, or once an expert. Where threads share a step, it is that thread which
  // is told of, and only there is any waiting.
  virtual void ObserveComponents(ComponentMarker marker) = 0;

  // From now on `marker` is told, on the thread that calls Append or AppendOne, of every stage of the LLM.int8()
  // products of it, or of others with vectors in 8 bits, in our kernel the first kFusedLlmInt8Stages. Where threads
  // share a product, the stages are those of that thread.
  virtual void ObserveStages(LlmInt8Marker marker) = 0;
};

// What a decoder has room for.
struct DecoderRoom {
  int64_t batch = 1;     // sequences
  int64_t capacity = 1;  // tokens of each
  int64_t piece = 1;     // tokens of each that AppendAll takes as fast as one: as many sequences' tokens would be
};

// With our own kernels, for fp32 and bf16 vectors: see lib/models/native. The weights must outlive it.
absl::StatusOr<std::unique_ptr<DecoderModel>> MakeNativeDecoder(const DecoderWeights& weights, const DecoderRoom& room,
                                                                int threads);

// By the name of an implementation: "eager" (LibTorch's operations) or "native". Unimplemented with the reason where it
// cannot run such weights here, InvalidArgument for another name. `threads` is for those that bring their own.
absl::StatusOr<std::unique_ptr<DecoderModel>> MakeDecoder(std::string_view implementation,
                                                          const DecoderWeights& weights, const DecoderRoom& room,
                                                          int threads);

}  // namespace roofbench::models
