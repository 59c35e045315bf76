// SPDX-License-Identifier: Apache-2.0
// tests/benchmarks/compiled_cases_slow_test.cc runs what Inductor makes of the operation.

#include "lib/models/decoding/compiled_decoder.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/workload/models/decoder.h"

namespace roofbench::models {
namespace {

using testing::HasSubstr;
using workload::WeightFormat;

DecoderWeights WeightsOf(const char* model, WeightFormat format) {
  const DecoderConfig config = ConfigOf(*workload::FindDecoderPreset(model));
  return *RandomWeights(config, Storage::Default(format), 3);
}

TEST(CompiledDecoder, GivesItsStepTheTokensTheirPositionsAndTheCache) {
  const DecoderWeights weights = WeightsOf("tiny_llama", WeightFormat::kInt8);
  CompiledDecoder decoder(weights, 2, 8);
  EagerDecoder eager(weights, 2, 8);
  std::vector<at::Tensor> seen;
  const auto compile = [&](const std::vector<at::Tensor>& operands) -> absl::StatusOr<CompiledDecoder::Step> {
    EXPECT_EQ(operands[0].sizes(), at::IntArrayRef({2, 1}));
    return [&](const std::vector<at::Tensor>& given) {
      seen = given;
      return at::full({2, 1}, 7.0, at::kFloat);
    };
  };
  ASSERT_TRUE(decoder.CompileFor(1, compile).ok());
  // Three tokens are not compiled.
  const at::Tensor prompt = at::tensor({1, 2, 3, 4, 5, 6}, at::kLong).view({2, 3});
  EXPECT_TRUE(decoder.Append(prompt).equal(eager.Append(prompt)));
  EXPECT_TRUE(seen.empty());
  const at::Tensor last = at::tensor({8, 9}, at::kLong);
  EXPECT_EQ(decoder.AppendOne(last).sum().item<float>(), 14);
  ASSERT_FALSE(seen.empty());
  EXPECT_TRUE(seen[0].equal(last.unsqueeze(1)));
  EXPECT_TRUE(seen[1].equal(at::tensor({3}, at::kLong)));
  EXPECT_EQ(decoder.length(), 4);
  // Each layer has its part of the cache, two norms, and four matrices with their scales.
  const std::size_t layers = weights.layers.size();
  ASSERT_EQ(seen.size(), 9 + layers * 12);
  const std::size_t last_layer = seen.size() - 12;
  EXPECT_EQ(seen[last_layer].data_ptr(), decoder.cache().keys[static_cast<int64_t>(layers) - 1].data_ptr());
  EXPECT_EQ(seen[last_layer + 1].data_ptr(), decoder.cache().values[static_cast<int64_t>(layers) - 1].data_ptr());
  decoder.Truncate(8);
  EXPECT_THROW(decoder.AppendOne(last), c10::Error) << "the cache is full";
}

TEST(CompiledDecoder, RefusesOtherModelsWithTheReason) {
  const DecoderConfig llama = ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  for (const WeightFormat format :
       {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kFp16, WeightFormat::kInt8}) {
    EXPECT_TRUE(CompiledDecoder::Check(llama, Storage::Default(format)).ok());
  }
  const auto why = [](const DecoderConfig& config, const Storage& storage) {
    return std::string(CompiledDecoder::Check(config, storage).message());
  };
  const Storage plain = Storage::Default(WeightFormat::kBf16);
  EXPECT_THAT(why(ConfigOf(*workload::FindDecoderPreset("tiny_mixtral")), plain), HasSubstr("no experts"));
  EXPECT_THAT(why(llama, Storage::Default(WeightFormat::kInt4)), HasSubstr("no int4, fp8 or LLM.int8() weights"));
  Storage cached = plain;
  cached.int8_cache = true;
  EXPECT_THAT(why(llama, cached), HasSubstr("cache in 8 bits"));
  DecoderConfig odd = llama;
  odd.shape.attention_bias = true;
  EXPECT_THAT(why(odd, plain), HasSubstr("biases of attention"));
  odd = llama;
  odd.gate = Gate::kGeluTanh;
  EXPECT_THAT(why(odd, plain), HasSubstr("SiLU"));
  odd = llama;
  odd.rotary_dim = 24;
  EXPECT_THAT(why(odd, plain), HasSubstr("heads that turn in part"));
  odd = llama;
  odd.stretched = StretchedRope{.method = StretchedRope::Method::kYarn};
  EXPECT_THAT(why(odd, plain), "") << "its positions are those of other tables";
  odd.stretched->method = StretchedRope::Method::kDynamic;
  EXPECT_THAT(why(odd, plain), HasSubstr("positions that turn by the length of a text"));
}

}  // namespace
}  // namespace roofbench::models
