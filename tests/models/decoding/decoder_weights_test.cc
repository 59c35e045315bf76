// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/decoder_weights.h"

#include <gtest/gtest.h>

#include <cmath>

namespace roofbench::models {
namespace {

using workload::WeightFormat;

DecoderWeights Make(WeightFormat format, bool fp32_norms) {
  DecoderConfig config = ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  config.shape.output_norms = config.shape.head_norms = true;
  config.shape.fp32_norms = fp32_norms;
  config.embedding_scale = std::sqrt(128);
  Storage storage = Storage::Default(format);
  storage.group = 32;
  return RandomWeights(config, storage, 1).value();
}

TEST(DecoderWeights, BytesAreThoseOfTheClosedForm) {
  for (const char* model : {"tiny_llama", "tiny_mixtral"}) {
    for (const WeightFormat format : workload::kWeightFormats) {
      const Storage storage = Storage::Default(format);
      DecoderConfig config = ConfigOf(*workload::FindDecoderPreset(model));
      config.shape.attention_bias = config.shape.head_norms = true;
      const DecoderWeights weights = RandomWeights(config, storage, 1).value();
      EXPECT_EQ(static_cast<double>(weights.nbytes()), storage.Of(config.shape).ModelBytes()) << model << Name(format);
    }
  }
}

// transformers makes a tensor of the model's type of it: 11.3137 is 11.3125 in bf16.
TEST(DecoderWeights, TheScaleOfTheEmbeddingIsRoundedAsItIs) {
  EXPECT_EQ(Make(WeightFormat::kBf16, true).EmbeddingScale(), 11.3125);
  EXPECT_EQ(Make(WeightFormat::kInt8, true).EmbeddingScale(), 11.3125);
  EXPECT_EQ(Make(WeightFormat::kFp32, true).EmbeddingScale(), std::sqrt(128.0F));
}

// One plus a small number is one in bf16.
TEST(DecoderWeights, NormsKeepTheirDigitsWhereTheyBeginAtOne) {
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt4}) {
    for (const bool fp32 : {false, true}) {
      const DecoderWeights weights = Make(format, fp32);
      const at::ScalarType type = fp32 ? at::kFloat : at::kBFloat16;
      EXPECT_EQ(weights.final_norm.scalar_type(), type);
      EXPECT_EQ(weights.embedding.scalar_type(), at::kBFloat16);
      for (const LayerWeights& layer : weights.layers) {
        for (const at::Tensor* norm : {&layer.attention_norm, &layer.attention_out_norm, &layer.mlp_norm,
                                       &layer.mlp_out_norm, &layer.query_norm, &layer.key_norm}) {
          ASSERT_TRUE(norm->defined());
          EXPECT_EQ(norm->scalar_type(), type);
        }
      }
      EXPECT_EQ(static_cast<double>(weights.nbytes()), weights.storage.Of(weights.config.shape).ModelBytes());
    }
  }
}

}  // namespace
}  // namespace roofbench::models
