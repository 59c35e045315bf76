// SPDX-License-Identifier: Apache-2.0
// Decoders whose keys and values are kept in 8 bits.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
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

namespace roofbench::models {
namespace {

using workload::WeightFormat;

TEST(RoundTo8Bits, LeavesStepsOfThe127thPartOfTheLargest) {
  const std::vector<float> x = {0.0F, 1.27F, -2.54F, 0.0101F, -0.0299F};
  std::vector<int8_t> codes(x.size());
  EXPECT_FLOAT_EQ(RoundTo8Bits(x.data(), 5, codes.data()), 0.02F);
  EXPECT_THAT(codes, testing::ElementsAre(0, 64, -127, 1, -1));
  const std::vector<float> zeros(5);
  EXPECT_EQ(RoundTo8Bits(zeros.data(), 5, codes.data()), 0);
  EXPECT_THAT(codes, testing::Each(0));
  for (const float strange : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> spoilt = x;
    spoilt[3] = strange;
    EXPECT_TRUE(std::isnan(RoundTo8Bits(spoilt.data(), 5, codes.data())));
    EXPECT_THAT(codes, testing::Each(0));
  }
}

// What LibTorch's operations write is what our kernel does, and each key is read back with its own factor.
TEST(KvCache, In8BitsKeepsEachHeadAndTokenByItself) {
  const workload::Transformer shape = workload::FindDecoderPreset("tiny_llama")->shape.base;
  const KvCache cache(shape, 3, 10, at::TensorOptions(at::kFloat), /*in_8_bits=*/true);
  at::Generator generator = at::detail::createCPUGenerator(5);
  const auto heads = static_cast<int64_t>(shape.KvHeads());
  const auto dim = static_cast<int64_t>(shape.HeadDim());
  // Of sizes that are a token's, a head's and a sequence's own.
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

  // What is no number spoils its own row, and that wholly.
  for (const float strange : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    at::Tensor spoilt = k.clone();
    spoilt[1][0][2][3] = strange;
    cache.Write(part, spoilt, v);
    const auto [read, same] = cache.Read(part);
    EXPECT_TRUE(read[1][0][2].isnan().all().item<bool>());
    EXPECT_EQ(read.isnan().sum().item<int64_t>(), dim);
    EXPECT_TRUE(same.equal(kept_values));
  }
}

struct Variant {
  const char* name;
  const char* implementation;
  WeightFormat format;
  int64_t window = 0;
};

class DecoderOfAnInt8Cache : public testing::TestWithParam<Variant> {};

TEST_P(DecoderOfAnInt8Cache, DiffersByItsRoundingAloneFromOneIn16Bits) {
  const at::NoGradGuard no_grad;
  const Variant& variant = GetParam();
  at::Generator generator = at::detail::createCPUGenerator(3);
  DecoderConfig config = ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  config.shape.window = static_cast<double>(variant.window);
  const at::Tensor tokens = at::randint(0, 96, {2, 12}, generator, at::kLong);
  const auto logits_of = [&](bool int8_cache, Arithmetic arithmetic) {
    Storage storage = Storage::Default(variant.format);
    storage.int8_cache = int8_cache;
    const DecoderWeights weights = RandomWeights(config, storage, 1).value();
    if (arithmetic == Arithmetic::kExact) return EagerDecoder(weights, 2, 12, arithmetic).Append(tokens).clone();
    // A prompt, and single tokens of both.
    const auto decoder = MakeDecoder(variant.implementation, weights, {.batch = 2, .capacity = 12}, 2).value();
    decoder->Append(tokens.narrow(1, 0, 5).contiguous());
    for (int64_t i = 5; i < 11; ++i) decoder->AppendOne(tokens.select(1, i).contiguous());
    return decoder->AppendOne(tokens.select(1, 11).contiguous()).clone();
  };
  const auto off = [](const at::Tensor& a, const at::Tensor& b) {
    return ((a - b).square().mean().sqrt() / b.square().mean().sqrt()).item<double>();
  };
  const at::Tensor plain = logits_of(false, Arithmetic::kExact);
  const at::Tensor rounded = logits_of(true, Arithmetic::kExact);
  EXPECT_LT(off(rounded, plain), 0.05);
  EXPECT_GT(off(rounded, plain), 0.0005);
  const at::Tensor found = logits_of(true, Arithmetic::kStored);
  if (variant.format == WeightFormat::kFp32) {
    // A last bit may decide about a step, of which there are many.
    EXPECT_LT(off(found, rounded), 0.2 * off(rounded, plain));
  } else {
    EXPECT_LT(off(found, rounded), 0.05);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, DecoderOfAnInt8Cache,
                         testing::Values(Variant{"eager_fp32", "eager", WeightFormat::kFp32},
                                         Variant{"native_fp32", "native", WeightFormat::kFp32},
                                         Variant{"native_fp32_window", "native", WeightFormat::kFp32, 6},
                                         Variant{"eager_bf16", "eager", WeightFormat::kBf16},
                                         Variant{"native_bf16", "native", WeightFormat::kBf16},
                                         Variant{"native_int8", "native", WeightFormat::kInt8}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace roofbench::models
