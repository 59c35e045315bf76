// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/decoder_weights.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/make_decoder.h"
#include "tests/models/decoding/variants.h"

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

TEST(DecoderWeights, BytesMatchTheClosedForm) {
  for (const char* model : {"tiny_llama", "tiny_mixtral"}) {
    for (const WeightFormat format : workload::kWeightFormats) {
      const Storage storage = Storage::Default(format);
      DecoderConfig config = ConfigOf(*workload::FindDecoderPreset(model));
      config.shape.attention_bias = config.shape.output_bias = config.shape.head_norms = true;
      config.shape.base.vocab = 101;  // does not fill int4's last tile
      const DecoderWeights weights = RandomWeights(config, storage, 1).value();
      EXPECT_EQ(static_cast<double>(weights.nbytes()), storage.Of(config.shape).ModelBytes()) << model << Name(format);
    }
  }
}

// transformers makes a tensor of the model's type of it: 11.3137 is 11.3125 in bf16.
TEST(DecoderWeights, TheScaleIsRoundedToTheTypeOfTheEmbedding) {
  EXPECT_EQ(Make(WeightFormat::kBf16, true).EmbeddingScale(), 11.3125);
  EXPECT_EQ(Make(WeightFormat::kInt8, true).EmbeddingScale(), 11.3125);
  EXPECT_EQ(Make(WeightFormat::kFp32, true).EmbeddingScale(), std::sqrt(128.0F));
}

// One plus a small number is one in bf16.
TEST(DecoderWeights, NormsAreInFp32IfTheModelSaysSo) {
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

class KeptRole : public testing::TestWithParam<std::tuple<WeightFormat, LinearRole>> {};

const StoredMatrix& MatrixOf(const DecoderWeights& weights, LinearRole role) {
  const LayerWeights& layer = weights.layers.back();
  switch (role) {
    case LinearRole::kQkv:
      return layer.qkv;
    case LinearRole::kOut:
      return layer.out;
    case LinearRole::kRouter:
      return layer.router;
    case LinearRole::kGateUp:
      return layer.gate_up;
    case LinearRole::kDown:
      return layer.down;
    case LinearRole::kHead:
      return weights.head;
  }
  return weights.head;
}

TEST_P(KeptRole, IsNotQuantized) {
  const at::NoGradGuard no_grad;
  const auto& [format, kept] = GetParam();
  Storage storage = Storage::Default(format);
  storage.group = 32;
  storage.skipped = {kept};
  const DecoderConfig mixture = ConfigOf(*workload::FindDecoderPreset("tiny_mixtral"));
  DecoderWeights weights = RandomWeights(mixture, storage, 1).value();
  for (const LinearRole role : kLinearRoles) {
    const bool plain = role == kept || role == LinearRole::kRouter;
    EXPECT_EQ(MatrixOf(weights, role).format, plain ? workload::UnquantizedFormat(format) : format) << Name(role);
  }
  EXPECT_EQ(static_cast<double>(weights.nbytes()), storage.Of(mixture.shape).ModelBytes());

  // A model without experts: between experts a last bit may decide.
  weights = RandomWeights(ConfigOf(*workload::FindDecoderPreset("tiny_llama")), storage, 1).value();
  at::Generator generator = at::detail::createCPUGenerator(3);
  const at::Tensor tokens = at::randint(0, 96, {2, 12}, generator, at::kLong);
  const at::Tensor exact = EagerDecoder(weights, 2, 12, Arithmetic::kExact).Append(tokens).clone();
  for (const char* implementation : {"eager", "native"}) {
    const at::Tensor found =
        MakeDecoder(implementation, weights, {.batch = 2, .capacity = 12}, 2).value()->Append(tokens).clone();
    EXPECT_LT(Off(found, exact), 0.05) << implementation;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, KeptRole,
                         testing::Combine(testing::Values(WeightFormat::kInt8, WeightFormat::kInt4,
                                                          WeightFormat::kLlmInt8),
                                          testing::Values(LinearRole::kQkv, LinearRole::kOut, LinearRole::kGateUp,
                                                          LinearRole::kDown, LinearRole::kHead)),
                         [](const auto& test) {
                           return std::string(Name(std::get<0>(test.param))) + "_" +
                                  std::string(Name(std::get<1>(test.param)));
                         });

}  // namespace
}  // namespace roofbench::models
