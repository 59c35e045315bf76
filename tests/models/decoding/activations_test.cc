// SPDX-License-Identifier: Apache-2.0
// Activations in fp16 and in 8 bits, and keys and values in 8 bits.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/make_decoder.h"
#include "lib/workload/models/decoder.h"
#include "tests/models/decoding/variants.h"

namespace roofbench::models {
namespace {

using workload::Activations;
using workload::WeightFormat;

class DecoderOfFp16Activations : public testing::TestWithParam<WeightFormat> {};

// The same weights: the exact decoder gives one result for both.
TEST_P(DecoderOfFp16Activations, IsMoreAccurateThanBf16) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(3);
  DecoderConfig config = ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  config.shape.attention_bias = config.shape.head_norms = true;
  const at::Tensor tokens = at::randint(0, 96, {2, 12}, generator, at::kLong);
  double off[2];
  for (const Activations activations : {Activations::kDefault, Activations::kFp16}) {
    Storage storage = Storage::Default(GetParam());
    storage.group = 32;
    storage.activations = activations;
    DecoderWeights weights = RandomWeights(config, storage, 1).value();
    // Numbers that both types represent, so that only the activations differ.
    weights.embedding.copy_(weights.embedding.to(at::kBFloat16));
    if (!weights.head.scale.defined()) weights.head.weight.copy_(weights.head.weight.to(at::kBFloat16));
    const at::Tensor exact = EagerDecoder(weights, 2, 12, Arithmetic::kExact).Append(tokens).clone();
    EagerDecoder decoder(weights, 2, 12);
    off[static_cast<int>(activations)] = Off(decoder.Append(tokens), exact);
    const auto type = activations == Activations::kFp16 ? at::kHalf : at::kBFloat16;
    for (const at::Tensor& vectors :
         {weights.embedding, weights.final_norm, weights.layers[0].attention_norm, weights.layers[0].qkv_bias,
          weights.layers[1].query_norm, decoder.cache().keys, decoder.cache().values}) {
      EXPECT_EQ(vectors.scalar_type(), type);
    }
    EXPECT_EQ(weights.nbytes(), static_cast<int64_t>(weights.storage.Of(config.shape).ModelBytes()));
  }
  // Eight times finer; LLM.int8() also rounds activations to 8 bits.
  EXPECT_LT(off[1], off[0] * (GetParam() == WeightFormat::kLlmInt8 ? 1 : 0.3));
  EXPECT_GT(off[1], 0);
}

INSTANTIATE_TEST_SUITE_P(Each, DecoderOfFp16Activations,
                         testing::Values(WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kLlmInt8),
                         [](const auto& instance) { return std::string(Name(instance.param)); });

// The sum of x times the int8 numbers is 127 times the result's size.
TEST(Fp16Activations, SumsOfInt8NumbersDoNotOverflow) {
  const at::NoGradGuard no_grad;
  constexpr int64_t kColumns = 512;
  StoredMatrix matrix = StoredMatrix::Empty(WeightFormat::kInt8, 1, 16, kColumns, 64);
  matrix.Store(0, 0, at::full({16, kColumns}, 0.25));
  const at::Tensor x = at::full({2, kColumns}, 2.0, at::kHalf);
  const at::Tensor y = matrix.Apply(x, 0, 0);
  ASSERT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_LT(Off(y.to(at::kFloat), at::linear(x.to(at::kFloat), matrix.Dequantized(0, 0, 16))), 1e-3);
}

TEST(Storage, RefusesActivationsThatTheFormatDoesNotTake) {
  const DecoderConfig config = ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  for (const WeightFormat format : workload::kWeightFormats) {
    const bool is_quantized = workload::UnquantizedFormat(format) != format;
    for (const Activations activations : {Activations::kFp16, Activations::kInt8}) {
      Storage storage = Storage::Default(format);
      storage.activations = activations;
      const absl::Status status = CheckStorage(config, storage);
      const bool takes_int8 = format == WeightFormat::kInt8 || format == WeightFormat::kInt4;
      EXPECT_EQ(status.ok(), is_quantized && (activations == Activations::kFp16 || takes_int8)) << Name(format);
      if (!status.ok()) {
        EXPECT_THAT(std::string(status.message()), testing::HasSubstr("for " + std::string(Name(format))));
      } else if (activations == Activations::kFp16) {
        const DecoderWeights weights = RandomWeights(config, storage, 1).value();
        const absl::Status native = MakeDecoder("native", weights, {.capacity = 4}, 1).status();
        EXPECT_EQ(native.code(), absl::StatusCode::kUnimplemented);
        EXPECT_THAT(std::string(native.message()), testing::HasSubstr("the eager decoder does"));
      }
    }
  }
  Storage storage = Storage::Default(WeightFormat::kInt8);
  storage.activations = Activations::kInt8;
  storage.skipped.insert(LinearRole::kHead);
  const DecoderWeights weights = RandomWeights(config, storage, 1).value();
  EXPECT_TRUE(weights.layers.front().down.MultipliesIntegers());
  EXPECT_FALSE(weights.head.MultipliesIntegers());
}

TEST(RoundTo8Bits, UsesStepsOfTheLargestOver127) {
  const std::vector<float> x = {0.0F, 1.27F, -2.54F, 0.0101F, -0.0299F};
  std::vector<int8_t> codes(x.size());
  EXPECT_FLOAT_EQ(RoundTo8Bits(x.data(), 5, codes.data()), 0.02F);
  EXPECT_THAT(codes, testing::ElementsAre(0, 64, -127, 1, -1));
  const std::vector<float> zeros(5);
  EXPECT_EQ(RoundTo8Bits(zeros.data(), 5, codes.data()), 0);
  EXPECT_THAT(codes, testing::Each(0));
  for (const float bad : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> broken = x;
    broken[3] = bad;
    EXPECT_TRUE(std::isnan(RoundTo8Bits(broken.data(), 5, codes.data())));
    EXPECT_THAT(codes, testing::Each(0));
  }
}

// LibTorch's operations write the same as the native kernel, and each key is read back with its own factor.
TEST(KvCache, In8BitsScalesEachHeadAndToken) {
  const workload::Transformer shape = workload::FindDecoderPreset("tiny_llama")->shape.base;
  const KvCache cache(shape, 3, 10, at::TensorOptions(at::kFloat), /*in_8_bits=*/true);
  at::Generator generator = at::detail::createCPUGenerator(5);
  const auto heads = static_cast<int64_t>(shape.KvHeads());
  const auto dim = static_cast<int64_t>(shape.HeadDim());
  // Sizes that differ by token, head and sequence.
  const at::Tensor sizes = at::randn({2, heads, 4, 1}, generator).exp();
  const at::Tensor k = at::randn({2, heads, 4, dim}, generator) * sizes;
  const at::Tensor v = at::randn({2, heads, 4, dim}, generator) * sizes.flip(2);
  const KvCache::Part part{.layer = 1, .first = 1, .sequences = 2, .begin = 5, .tokens = 4};
  cache.Write(part, k, v);
  const auto [kept_keys, kept_values] = cache.Read(part);
  for (const auto& [kept, exact] : {std::pair{kept_keys, k}, {kept_values, v}}) {
    const at::Tensor step = exact.abs().amax(-1, true) / 127;
    EXPECT_TRUE(((kept - exact).abs() <= 0.501 * step).all().item<bool>());
    EXPECT_FALSE(kept.equal(exact));
  }
  std::vector<int8_t> codes(static_cast<std::size_t>(dim));
  const at::Tensor one = v[1][0][2].contiguous();
  EXPECT_EQ(RoundTo8Bits(one.const_data_ptr<float>(), dim, codes.data()), cache.value_scales[1][2][0][7].item<float>());
  for (int64_t i = 0; i < dim; ++i) {
    EXPECT_EQ(codes[static_cast<std::size_t>(i)], cache.values[1][2][0][7][i].item<int>());
  }
  EXPECT_EQ(cache.keys[0].abs().sum().item<int64_t>(), 0);

  // A NaN or an infinity spoils its own row, and all of it.
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    at::Tensor broken = k.clone();
    broken[1][0][2][3] = bad;
    cache.Write(part, broken, v);
    const auto [read, same] = cache.Read(part);
    EXPECT_TRUE(read[1][0][2].isnan().all().item<bool>());
    EXPECT_EQ(read.isnan().sum().item<int64_t>(), dim);
    EXPECT_TRUE(same.equal(kept_values));
  }
}

// Activations, or keys and values, in 8 bits.
class DecoderIn8Bits : public testing::TestWithParam<Variant> {};

TEST_P(DecoderIn8Bits, DiffersByItsRoundingAloneFromOneIn16Bits) {
  const at::NoGradGuard no_grad;
  const Variant& variant = GetParam();
  at::Generator generator = at::detail::createCPUGenerator(3);
  const at::Tensor tokens = at::randint(0, 96, {2, 12}, generator, at::kLong);
  const auto exact = [&](const Variant& one) {
    return EagerDecoder(WeightsOf(one), 2, 12, Arithmetic::kExact).Append(tokens).clone();
  };
  Variant in_16_bits = variant;
  in_16_bits.int8_activations = in_16_bits.int8_cache = false;
  const at::Tensor plain = exact(in_16_bits);
  const at::Tensor rounded = exact(variant);
  // A step of 1/127 of the largest of some hundred normal numbers, about 3 of their deviations, is 0.024 of one, and
  // its error 0.024 / √12 = 0.007; there are eight products.
  const double most = variant.int8_activations ? 0.1 : 0.05;
  EXPECT_LT(Off(rounded, plain), most);
  EXPECT_GT(Off(rounded, plain), variant.int8_activations ? 0.003 : 0.0005);
  // A prompt, and single tokens of both. bf16 between the operations costs as much again, where a last bit decides
  // about a step.
  const DecoderWeights weights = WeightsOf(variant);
  const auto decoder = MakeDecoder(variant.implementation, weights, {.batch = 2, .capacity = 12}, 2).value();
  at::Tensor found = decoder->Append(tokens.narrow(1, 0, 5).contiguous());
  for (int64_t i = 5; i < 12; ++i) found = decoder->AppendOne(tokens.select(1, i).contiguous());
  EXPECT_LT(Off(found, rounded), variant.format == WeightFormat::kFp32 ? 0.2 * Off(rounded, plain) : most);
}

std::vector<Variant> VariantsIn8Bits() {
  std::vector<Variant> variants;
  for (const char* implementation : {"eager", "native"}) {
    const auto add = [&](WeightFormat format, bool has_all, bool int8_activations) {
      variants.push_back({implementation, "tiny_llama", format, has_all, int8_activations, !int8_activations});
    };
    for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) add(format, false, true);
    for (const WeightFormat format : {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8}) {
      add(format, false, false);
    }
    add(WeightFormat::kFp32, true, false);
  }
  return variants;
}

INSTANTIATE_TEST_SUITE_P(Each, DecoderIn8Bits, testing::ValuesIn(VariantsIn8Bits()),
                         [](const auto& instance) { return NameOf(instance.param); });

}  // namespace
}  // namespace roofbench::models
