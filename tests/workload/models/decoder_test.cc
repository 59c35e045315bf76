// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/decoder.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

namespace roofbench::workload {
namespace {

Decoder Preset(const char* name) { return FindDecoderPreset(name)->shape; }

// Weights that `tokens` tokens read together.
double WeightsReadBytes(const StoredDecoder& stored, double tokens) {
  return stored.DecodeCost(tokens, 0, 1).BytesRead() - tokens * stored.KvBytesPerToken();
}

constexpr Decoder kSmall = {.base = {.d_model = 8, .d_ff = 16, .layers = 3, .heads = 4, .vocab = 32, .kv_heads = 2}};

// As published (Hugging Face's safetensors totals).
TEST(Decoder, ParametersOfThePublishedModels) {
  EXPECT_EQ(Preset("tinyllama_1b").Parameters(), 1100048384);
  EXPECT_EQ(Preset("llama3_1b").Parameters(), 1235814400);
  EXPECT_EQ(Preset("llama2_7b").Parameters(), 6738415616);
  EXPECT_EQ(Preset("llama3_8b").Parameters(), 8030261248);
  EXPECT_EQ(Preset("mixtral_8x7b").Parameters(), 46702792704);
}

TEST(Decoder, AMixtureUsesTwoOfItsEightExperts) {
  const Decoder mixtral = Preset("mixtral_8x7b");
  EXPECT_NEAR(mixtral.ActiveParameters() / 1e9, 12.75, 0.01);
  EXPECT_DOUBLE_EQ(mixtral.ExpectedExperts(1), 2);
  EXPECT_DOUBLE_EQ(mixtral.ExpectedExperts(2), 8 * (1 - 0.75 * 0.75));
  EXPECT_NEAR(mixtral.ExpectedExperts(100), 8, 1e-9);
}

TEST(Decoder, KvCacheOfLlama2IsHalfAMebibyteAToken) {
  EXPECT_EQ(Preset("llama2_7b").KvBytesPerToken(WeightFormat::kBf16), 512 * 1024);
}

TEST(Decoder, CutsKeepTheRatioOfLayersToVocabulary) {
  const Transformer whole = Preset("llama3_1b").base;
  const Transformer cut = Preset("llama3_1b_4th").base;
  EXPECT_EQ(cut.layers, 4);
  EXPECT_EQ(cut.vocab, 32064);
  EXPECT_EQ(whole.vocab / whole.layers, cut.vocab / cut.layers);
  EXPECT_EQ(whole.d_model, cut.d_model);
}

TEST(StoredDecoder, BytesByHand) {
  const double layer = (16 + 8) * 8 + 8 * 8 + 32 * 8 + 8 * 16;  // qkv (8 + 2·4 wide), out, gate and up, down
  const StoredDecoder bf16{.shape = kSmall, .format = WeightFormat::kBf16};
  EXPECT_EQ(bf16.ModelBytes(), 2 * (2 * 32 * 8 + 3 * (layer - 8 * 8) + 7 * 8));
  // A scale of 4 bytes a row: qkv 16, out 8, gate and up 32, down 8; the head's rows 32.
  const StoredDecoder int8{.shape = kSmall, .format = WeightFormat::kInt8};
  EXPECT_EQ(int8.ModelBytes(), 2 * 32 * 8 + 32 * 8 + 4 * 32 + 3 * (layer - 8 * 8 + 4 * 64) + 2 * 7 * 8);
  // A scale and a zero of 2 bytes each for every 8 weights of a row; out and down, of 8 rows, fill half a tile.
  const StoredDecoder int4{.shape = kSmall, .format = WeightFormat::kInt4, .group = 8};
  EXPECT_EQ(int4.ModelBytes(), 2 * 32 * 8 + 32 * 8 + 3 * (layer - 8 * 8 + 8 * 8 + 8 * 16) + 2 * 7 * 8);
}

// Norms of outputs are two vectors of d a layer more; all norms in fp32 take four bytes an element in every format.
TEST(StoredDecoder, NormsMayBeMoreAndWider) {
  Decoder shape = kSmall;
  shape.attention_bias = shape.head_norms = true;
  Decoder more = shape;
  more.output_norms = true;
  EXPECT_EQ(more.Parameters() - shape.Parameters(), 3 * 2 * 8);
  Decoder wide = more;
  wide.fp32_norms = true;
  EXPECT_EQ(wide.Parameters(), more.Parameters());
  const double norms = 3 * (4 * 8 + 2 * 2) + 8;
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4}) {
    const auto bytes = [&](const Decoder& of) {
      return StoredDecoder{.shape = of, .format = format, .group = 8}.ModelBytes();
    };
    EXPECT_EQ(bytes(more) - bytes(shape), 2 * 3 * 2 * 8);
    EXPECT_EQ(bytes(wide) - bytes(more), 2 * norms);
  }
  EXPECT_EQ((StoredDecoder{.shape = wide, .format = WeightFormat::kFp32}.ModelBytes()),
            (StoredDecoder{.shape = more, .format = WeightFormat::kFp32}.ModelBytes()));
}

// The same bytes and as much arithmetic, of integers where weights are; attention stays.
TEST(StoredDecoder, Int8ActivationsMakeProductsOfIntegers) {
  StoredDecoder stored{.shape = kSmall, .format = WeightFormat::kInt8};
  const Cost plain = stored.PrefillCost(2, 10, 10);
  stored.activations = Activations::kInt8;
  const Cost by_int8 = stored.PrefillCost(2, 10, 10);
  EXPECT_EQ(by_int8.BytesRead(), plain.BytesRead());
  EXPECT_EQ(plain.Flops(Dtype::kInt8), 0);
  EXPECT_EQ(by_int8.Flops(), plain.Flops());
  EXPECT_EQ(by_int8.Flops(Dtype::kBf16), 3 * 4.0 * (2 * 55) * 8);
  stored.kept = {DecoderComponent::kHead};
  EXPECT_EQ(stored.PrefillCost(2, 10, 10).Flops(Dtype::kBf16), 3 * 4.0 * (2 * 55) * 8 + 2 * 2 * 32 * 8);
}

// Of vectors of 8 elements, 16 in attention, and 32 and 16 in the feed forward.
TEST(StoredDecoder, ATokenTakesTheBytesOfItsWidestOperation) {
  const auto bytes_of_a_token = [](const StoredDecoder& stored) {
    const Transformer& s = stored.shape.base;
    const double kept = stored.ModelBytes() + 20 * stored.KvBytesPerToken() + 2 * s.vocab * 4;
    const double angles = 10 * 4 * s.QueryWidth() / s.heads;
    return (stored.ResidentBytes(2, 10, 10) - kept - angles) / 20;
  };
  const struct {
    WeightFormat format;
    Activations activations;
    double bytes;
    double by_own_kernels;  // with the packed keys and values
  } rows[] = {
      // The residual, its norm, the gate's halves and their product.
      {WeightFormat::kFp32, Activations::kDefault, 4 * (8 + 8 + 3 * 16), 4 * (8 + 8 + 3 * 16 + 8)},
      {WeightFormat::kBf16, Activations::kDefault, 2 * (8 + 8 + 3 * 16), 2 * (8 + 8 + 3 * 16 + 8)},
      {WeightFormat::kInt4, Activations::kDefault, 2 * (8 + 8 + 3 * 16), 2 * (8 + 8 + 3 * 16 + 8)},
      // The product with unscaled weights, again in fp32, and scaled.
      {WeightFormat::kInt8, Activations::kDefault, 2 * (8 + 8) + 32 * (2 + 4 + 4), 2 * (8 + 8 + 8) + 32 * (2 + 4 + 4)},
      {WeightFormat::kFp8, Activations::kDefault, 2 * (8 + 8) + 32 * (2 + 4 + 4), 2 * (8 + 8 + 8) + 32 * (2 + 4 + 4)},
      {WeightFormat::kInt8, Activations::kFp16, 2 * (8 + 8 + 3 * 16), 2 * (8 + 8 + 3 * 16 + 8)},
      // The codes of the widest vectors; or what operations of LibTorch make of vectors and integers.
      {WeightFormat::kInt8, Activations::kInt8, 2 * (8 + 8) + 8 * 9 + 32 * 20, 2 * (8 + 8 + 3 * 16 + 8) + 16},
      {WeightFormat::kLlmInt8, Activations::kDefault, 2 * (8 + 8) + 8 * 13 + 32 * 20, 2 * (8 + 8 + 3 * 16 + 8) + 16},
      {WeightFormat::kInt4, Activations::kInt8, 2 * (8 + 8) + 8 * 6 + 32 * 10, 2 * (8 + 8 + 3 * 16 + 8) + 16},
  };
  for (const auto& [format, activations, bytes, by_own_kernels] : rows) {
    StoredDecoder stored{.shape = kSmall, .format = format, .group = 8, .activations = activations};
    EXPECT_EQ(bytes_of_a_token(stored), bytes) << Name(format);
    stored.own_kernels = true;
    EXPECT_EQ(bytes_of_a_token(stored), by_own_kernels) << Name(format);
  }
  // By tiles, the widest vectors in two bytes, and once more as columns.
  StoredDecoder tiled{.shape = kSmall, .format = WeightFormat::kInt8, .own_kernels = true, .tiles = true};
  EXPECT_EQ(bytes_of_a_token(tiled), 2 * (8 + 8 + 3 * 16 + 8) + 4 * 16);
  tiled.activations = Activations::kInt8;
  EXPECT_EQ(bytes_of_a_token(tiled), 2 * (8 + 8 + 3 * 16 + 8) + 16);
  // Results of blocks of the matrix, which are joined.
  const StoredDecoder int4{.shape = Preset("llama3_1b"), .format = WeightFormat::kInt4};
  EXPECT_EQ(bytes_of_a_token(int4), 2 * (2 * 2048 + 2 * 2 * 8192));
  // Norms of wide vectors before a narrow feed forward; wide attention.
  StoredDecoder other{.shape = kSmall, .format = WeightFormat::kBf16};
  other.shape.base.d_ff = 8;
  EXPECT_EQ(bytes_of_a_token(other), 8 * (2 + 3 * 4));
  other.shape.base.head_size = 64;
  EXPECT_EQ(bytes_of_a_token(other), 2 * (8 + (4 + 2 * 2) * 64 + 2 * 4 * 64));
}

// Two bytes per weight, in place of one byte per weight and a four-byte scale per row.
TEST(StoredDecoder, KeptProductsAreReadAndMultipliedIn16Bits) {
  const StoredDecoder all{.shape = kSmall, .format = WeightFormat::kInt8, .activations = Activations::kInt8};
  const Transformer& s = kSmall.base;
  const struct {
    DecoderComponent product;
    double rows;
    double columns;
  } products[] = {{DecoderComponent::kQkv, s.QueryWidth() + 2 * s.KvWidth(), s.d_model},
                  {DecoderComponent::kOut, s.d_model, s.QueryWidth()},
                  {DecoderComponent::kGateUp, 2 * s.d_ff, s.d_model},
                  {DecoderComponent::kDown, s.d_model, s.d_ff}};
  for (const auto& [product, rows, columns] : products) {
    StoredDecoder kept = all;
    kept.kept = {product};
    const double more = s.layers * (rows * columns - 4 * rows);
    EXPECT_EQ(kept.ModelBytes() - all.ModelBytes(), more) << Name(product);
    EXPECT_EQ(WeightsReadBytes(kept, 1) - WeightsReadBytes(all, 1), more) << Name(product);
    EXPECT_EQ(all.PrefillCost(1, 10, 10).Flops(Dtype::kInt8) - kept.PrefillCost(1, 10, 10).Flops(Dtype::kInt8),
              s.layers * 10 * 2 * rows * columns)
        << Name(product);
  }
}

// A byte per element, and four per head and token, of keys and of values.
TEST(StoredDecoder, ACacheIn8BitsIsReadAndHeldAsSuch) {
  const StoredDecoder plain{.shape = kSmall, .format = WeightFormat::kBf16};
  StoredDecoder stored = plain;
  stored.int8_cache = true;
  const double key_and_value = kSmall.base.layers * 2 * (kSmall.base.KvWidth() + 4 * kSmall.base.KvHeads());
  EXPECT_EQ(stored.KvBytesPerToken(), key_and_value);
  EXPECT_EQ(plain.KvBytesPerToken(), kSmall.KvBytesPerToken(WeightFormat::kBf16));
  EXPECT_EQ(stored.DecodeCost(3, 99, 100).BytesRead() - WeightsReadBytes(stored, 3), 300 * key_and_value);
  EXPECT_EQ(WeightsReadBytes(stored, 3), WeightsReadBytes(plain, 3));
  EXPECT_EQ(stored.DecodeCost(3, 99, 100).Flops(), plain.DecodeCost(3, 99, 100).Flops());
  // With the layer that is made again.
  EXPECT_EQ(stored.ResidentBytes(3, 1, 100) - stored.ModelBytes() - (plain.ResidentBytes(3, 1, 0) - plain.ModelBytes()),
            300 * (key_and_value + 2 * 4 * kSmall.base.KvWidth()) + 100 * 4 * 2)
      << "and the angles";
}

TEST(StoredDecoder, AQuantizedTiedHeadIsAMatrixOfItsOwn) {
  StoredDecoder stored{.shape = Preset("llama3_1b"), .format = WeightFormat::kInt8};
  const double vocab = 128256;
  const double with = stored.ModelBytes();
  stored.kept = {DecoderComponent::kHead};
  EXPECT_EQ(with - stored.ModelBytes(), vocab * 2048 + 4 * vocab);
}

TEST(StoredDecoder, AOneTokenStepReadsEveryWeightAndTheCacheOnce) {
  const StoredDecoder stored{.shape = kSmall, .format = WeightFormat::kBf16};
  const Cost cost = stored.DecodeCost(1, 99, 100);
  const double weights = kSmall.ActiveParameters() * 2;
  const double cache = 100 * kSmall.KvBytesPerToken(WeightFormat::kBf16);
  EXPECT_EQ(cost.BytesRead(), weights + cache + 2 * 8);
  EXPECT_EQ(cost.Flops(), 2 * kSmall.ActiveParameters() + 3 * 4.0 * 100 * 8);
  EXPECT_EQ(WeightsReadBytes(stored, 1), weights + 2 * 8);
}

TEST(StoredDecoder, PrefillReadsTheWeightsOnceAndHalfTheSquare) {
  const StoredDecoder stored{.shape = kSmall, .format = WeightFormat::kBf16};
  const Cost cost = stored.PrefillCost(2, 10, 10);
  const double linears = kSmall.ActiveParameters() - 32 * 8;
  EXPECT_EQ(cost.Flops(), 2 * 20 * linears + 2 * 2 * 32 * 8 + 3 * 4.0 * (2 * 55) * 8);
}

TEST(StoredDecoder, GeneratingIsThePromptAndTheTokensAfterTheFirst) {
  const StoredDecoder stored{.shape = kSmall, .format = WeightFormat::kInt8};
  double flops = stored.PrefillCost(2, 6, 10).Flops();
  const double bytes = stored.PrefillCost(2, 6, 10).BytesRead();
  double decoded = 0;
  for (double depth = 6; depth < 9; ++depth) {
    flops += stored.DecodeCost(2, depth, 10).Flops();
    decoded += stored.DecodeCost(2, depth, 10).BytesRead();
  }
  const Cost cost = stored.GenerateCost(2, 6, 4);
  EXPECT_NEAR(cost.Flops(), flops, 1e-6 * flops);
  EXPECT_NEAR(cost.BytesRead(), bytes + decoded, 1e-6 * bytes);
  EXPECT_NEAR(stored.DecodeReadBytes(2, 6, 4), decoded, 1e-6 * decoded);
  EXPECT_EQ(stored.DecodeReadBytes(2, 6, 1), 0);
  EXPECT_EQ(cost.OfComponent("prefill").Bytes(), stored.PrefillCost(2, 6, 10).Bytes());
  EXPECT_NEAR(cost.OfComponent("decode").BytesRead(), decoded, 1e-6 * decoded);
  EXPECT_DOUBLE_EQ(cost.OfComponent("prefill").Bytes() + cost.OfComponent("decode").Bytes(), cost.Bytes());
}

// Three sequences of 2, 6 and 3 tokens get 1, 4 and 2 more: a step of two, then two of one alone.
TEST(StoredDecoder, ASequenceCostsNothingBeforeItAndNothingAfterItsEnd) {
  for (const double window : {0, 4}) {
    Decoder shape = kSmall;
    shape.window = window;
    const StoredDecoder stored{.shape = shape, .format = WeightFormat::kInt8};
    const std::vector<SequenceTokens> sequences = {{2, 1}, {6, 4}, {3, 2}};
    const double key = shape.KvBytesPerToken(WeightFormat::kInt8);
    const double of_two = stored.DecodeCost(2, 0, 1).BytesRead() - 2 * key + (shape.AttendedKeys(6, 1) + 4) * key;
    const double expected = of_two + stored.DecodeCost(1, 7, 10).BytesRead() + stored.DecodeCost(1, 8, 10).BytesRead();
    EXPECT_NEAR(stored.DecodeReadBytes(sequences), expected, 1e-6);
    const Cost cost = stored.GenerateCost(sequences);
    EXPECT_NEAR(cost.OfComponent("decode").BytesRead(), expected, 1e-6);
    // Weights once for all of the prompts, as for one of 11 tokens but for the head, which three tokens go through.
    const Cost prompts = cost.OfComponent("prefill");
    const double linears = shape.ActiveParameters() - 32 * 8;
    const double scores = 3 + shape.AttendedKeys(0, 6) + 6;
    EXPECT_EQ(prompts.Flops(), 2 * 11 * linears + 3 * 2 * 32 * 8 + 3 * 4.0 * scores * 8);
    EXPECT_EQ(cost.resident_bytes, stored.ResidentBytes(3, 6, 10));
  }
}

// A window of 4 of 6 keys: 1 + 2 + 3 + 4 + 4 + 4.
TEST(Decoder, AWindowBoundsTheAttendedKeys) {
  Decoder windowed = kSmall;
  windowed.window = 4;
  EXPECT_EQ(windowed.AttendedKeys(0, 6), 18);
  EXPECT_EQ(windowed.AttendedKeys(2, 3), 3 + 4 + 4);
  EXPECT_EQ(windowed.AttendedKeys(9, 2), 8);
  EXPECT_EQ(kSmall.AttendedKeys(9, 2), 10 + 11);
  const StoredDecoder stored{.shape = windowed, .format = WeightFormat::kBf16};
  const StoredDecoder whole{.shape = kSmall, .format = WeightFormat::kBf16};
  const double key_and_value = kSmall.KvBytesPerToken(WeightFormat::kBf16);
  EXPECT_EQ(whole.DecodeCost(1, 99, 100).BytesRead() - stored.DecodeCost(1, 99, 100).BytesRead(), 96 * key_and_value);
  EXPECT_EQ(stored.DecodeReadBytes(1, 2, 4),
            whole.DecodeCost(1, 2, 4).BytesRead() + 2 * whole.DecodeCost(1, 3, 4).BytesRead());
  EXPECT_EQ(stored.ResidentBytes(1, 1, 100), whole.ResidentBytes(1, 1, 100)) << "the cache keeps all keys";
  EXPECT_EQ(stored.ResidentBytes(2, 4, 4), whole.ResidentBytes(2, 4, 4));
  EXPECT_EQ(stored.ResidentBytes(2, 6, 6) - whole.ResidentBytes(2, 6, 6), 6 * 6 * (2 + 2)) << "the mask of the prompt";
}

// One of three layers has none: every cost lies a third of the way from a model with it to one without.
TEST(Decoder, AWindowMayBeForSomeLayersOnly) {
  Decoder windowed = kSmall;
  windowed.window = 4;
  Decoder some = windowed;
  some.whole_layers = 1;
  EXPECT_EQ(kSmall.base.layers, 3);
  const auto between = [](double with, double without) { return with + (without - with) / 3; };
  EXPECT_NEAR(some.AttendedKeys(2, 5), between(19, 25), 1e-9);
  EXPECT_NEAR(some.ReadKeys(6, 3), between(6, 9), 1e-9);
  const StoredDecoder with{.shape = windowed};
  const StoredDecoder of_some{.shape = some};
  const StoredDecoder without{.shape = kSmall};
  const auto cost = [](const StoredDecoder& stored) {
    Cost all = stored.PrefillCost(2, 9, 9);
    all += stored.GenerateCost({{2, 1}, {6, 4}});
    all += stored.GenerateCost(6, 20, std::vector<DecoderPass>{{6, 3}, {10, 2}});
    return all;
  };
  EXPECT_NEAR(cost(of_some).Flops(), between(cost(with).Flops(), cost(without).Flops()), 1e-6);
  EXPECT_NEAR(cost(of_some).BytesRead(), between(cost(with).BytesRead(), cost(without).BytesRead()), 1e-6);
  EXPECT_LT(cost(with).BytesRead(), cost(without).BytesRead());
  EXPECT_EQ(of_some.ResidentBytes(2, 6, 6), with.ResidentBytes(2, 6, 6)) << "the mask of those that have it";
}

TEST(Decoder, BiasesAndNormsOfHeadsCount) {
  Decoder shape = kSmall;
  shape.attention_bias = true;
  shape.output_bias = true;
  shape.head_norms = true;
  const double more = 3 * (16 + 8 + 2 * 2);  // layers · (q + 2·kv + d + 2·head_dim)
  EXPECT_EQ(shape.Parameters() - kSmall.Parameters(), more);
  const StoredDecoder with{.shape = shape, .format = WeightFormat::kInt8};
  const StoredDecoder without{.shape = kSmall, .format = WeightFormat::kInt8};
  EXPECT_EQ(with.ModelBytes() - without.ModelBytes(), 2 * more);
  EXPECT_EQ(with.DecodeCost(1, 5, 6).BytesRead() - without.DecodeCost(1, 5, 6).BytesRead(), 2 * 3 * (16 + 8));
}

// Parts without operations: waiting, and the gate, whose operands stay in caches.
TEST(StoredDecoder, EveryOperationIsOfAComponent) {
  Decoder mixture = kSmall;
  mixture.experts = 8;
  mixture.active_experts = 2;
  for (const Decoder& shape : {kSmall, mixture}) {
    for (const WeightFormat format : kWeightFormats) {
      const StoredDecoder stored{.shape = shape, .format = format, .group = 8};
      const Cost cost = stored.DecodeCost(3, 50, 60);
      double bytes = 0;
      double flops = 0;
      for (const std::string_view name : kDecoderComponentNames) {
        bytes += cost.OfComponent(name).Bytes();
        flops += cost.OfComponent(name).Flops();
      }
      EXPECT_DOUBLE_EQ(bytes, cost.Bytes()) << Name(format);
      EXPECT_DOUBLE_EQ(flops, cost.Flops()) << Name(format);
    }
  }
}

TEST(StoredDecoder, PartsByHand) {
  const StoredDecoder stored{.shape = kSmall, .format = WeightFormat::kBf16};
  const Cost cost = stored.DecodeCost(1, 99, 100);
  const std::pair<DecoderComponent, double> bytes[] = {{DecoderComponent::kQkv, 3 * 2 * 16 * 8},
                                                       {DecoderComponent::kAttention, 3 * 2 * 2 * 4 * (100 + 1)},
                                                       {DecoderComponent::kOut, 3 * 2 * 8 * 8},
                                                       {DecoderComponent::kGateUp, 3 * 2 * 32 * 8},
                                                       {DecoderComponent::kDown, 3 * 2 * 8 * 16},
                                                       {DecoderComponent::kHead, 2 * 32 * 8 + 4 * 32},
                                                       {DecoderComponent::kWait, 0}};
  for (const auto& [part, expected] : bytes) EXPECT_EQ(cost.OfComponent(Name(part)).Bytes(), expected) << Name(part);
}

// As many bytes as in bf16; products by fp16's peak, but LLM.int8()'s own.
TEST(StoredDecoder, Fp16ActivationsCountAsFp16) {
  for (const WeightFormat format :
       {WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kLlmInt8, WeightFormat::kFp8}) {
    StoredDecoder stored{.shape = kSmall, .format = format, .kept = {DecoderComponent::kHead}, .group = 8};
    const Cost plain = stored.DecodeCost(2, 5, 10);
    stored.activations = Activations::kFp16;
    const Cost cost = stored.DecodeCost(2, 5, 10);
    EXPECT_EQ(cost.Bytes(), plain.Bytes());
    EXPECT_EQ(cost.Flops(Dtype::kFp16), plain.Flops(Dtype::kBf16)) << Name(format);
    EXPECT_EQ(cost.Flops(Dtype::kBf16), 0) << Name(format);
    EXPECT_EQ(cost.Flops(Dtype::kInt8), plain.Flops(Dtype::kInt8)) << Name(format);
  }
}

// Tokens that are read at once share the weights and the keys before them.
TEST(StoredDecoder, APassOfSomeTokensReadsTheWeightsOnce) {
  for (const double window : {0, 4}) {
    Decoder shape = kSmall;
    shape.window = window;
    const StoredDecoder stored{.shape = shape, .format = WeightFormat::kInt8};
    const Cost alone = stored.GenerateCost(6, 20, std::vector<DecoderPass>{{6, 1}, {7, 1}, {8, 1}});
    EXPECT_EQ(alone.resident_bytes, stored.ResidentBytes(1, 6, 20));
    const Cost generated = stored.GenerateCost(1, 6, 4);
    EXPECT_NEAR(alone.Bytes(), generated.Bytes(), 1e-6);
    EXPECT_NEAR(alone.Flops(), generated.Flops(), 1e-6);
    // Three tokens after six, and two after ten, which then are read again.
    const std::vector<DecoderPass> passes = {{6, 3}, {10, 2}, {10, 2}};
    const Cost cost = stored.GenerateCost(6, 20, passes);
    EXPECT_EQ(cost.OfComponent("prefill").Bytes(), stored.PrefillCost(1, 6, 20).Bytes());
    const Cost decode = cost.OfComponent("decode");
    const double key = stored.KvBytesPerToken();
    const double row = 8 * 2;  // of the embedding
    const double weights = WeightsReadBytes(stored, 1) - row;
    // With a window of 4 three tokens meet 4 + 2 different keys, and two 4 + 1.
    const double keys = window == 0 ? 9 + 12 + 12 : 6 + 5 + 5;
    EXPECT_NEAR(decode.BytesRead(), 3 * weights + 7 * row + keys * key, 1e-6);
    EXPECT_NEAR(decode.Bytes() - decode.BytesRead(), 7 * (key + 32 * 4), 1e-6);
    const double scores = window == 0 ? 7 + 8 + 9 + 2 * (11 + 12) : 7 * 4;
    EXPECT_NEAR(decode.Flops(), 7 * 2 * shape.ActiveParameters() + 3 * 4.0 * scores * 8, 1e-6);
    EXPECT_NEAR(stored.DecodeReadBytes(passes), decode.BytesRead(), 1e-6);
  }
}

TEST(WeightFormat, NamesRoundTrip) {
  for (const WeightFormat format : kWeightFormats) EXPECT_EQ(ParseWeightFormat(Name(format)), format);
  EXPECT_FALSE(ParseWeightFormat("int3"));
}

}  // namespace
}  // namespace roofbench::workload
