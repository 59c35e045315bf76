// SPDX-License-Identifier: Apache-2.0
// Decoders whose vectors are rounded to 8 bits before each product with a quantised matrix.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/eager_decoder.h"

namespace roofbench::models {
namespace {

using workload::Activations;
using workload::WeightFormat;

// A vector's scale is its own: what is read beside it changes nothing but the order of attention's sums.
class DecoderOfInt8Activations : public testing::TestWithParam<WeightFormat> {};
TEST_P(DecoderOfInt8Activations, DiffersFromTheOneIn16BitsByTheirRounding) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(3);
  Storage storage = Storage::Default(GetParam());
  storage.group = 32;
  const DecoderConfig config = ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  const at::Tensor tokens = at::randint(0, 96, {2, 12}, generator, at::kLong);
  const auto logits_of = [&](bool int8_activations, const char* implementation, Arithmetic arithmetic) {
    storage.activations = int8_activations ? Activations::kInt8 : Activations::kDefault;
    const DecoderWeights weights = RandomWeights(config, storage, 1).value();
    if (arithmetic == Arithmetic::kExact) return EagerDecoder(weights, 2, 12, arithmetic).Append(tokens).clone();
    return MakeDecoder(implementation, weights, {.batch = 2, .capacity = 12}, 2).value()->Append(tokens).clone();
  };
  const auto off = [](const at::Tensor& a, const at::Tensor& b) {
    return ((a - b).square().mean().sqrt() / b.square().mean().sqrt()).item<double>();
  };
  const at::Tensor plain = logits_of(false, "eager", Arithmetic::kExact);
  const at::Tensor rounded = logits_of(true, "eager", Arithmetic::kExact);
  // A step of 1/127 of the largest of some hundred normal numbers, about 3 of their deviations, is 0.024 of one, and
  // its error 0.024 / √12 = 0.007; there are eight products.
  EXPECT_LT(off(rounded, plain), 0.1);
  EXPECT_GT(off(rounded, plain), 0.003);
  for (const char* implementation : {"eager", "native"}) {
    // bf16 between the operations costs as much again, where a last bit decides about a step.
    EXPECT_LT(off(logits_of(true, implementation, Arithmetic::kStored), rounded), 0.1) << implementation;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, DecoderOfInt8Activations, testing::Values(WeightFormat::kInt8, WeightFormat::kInt4),
                         [](const auto& instance) { return std::string(Name(instance.param)); });

TEST(Storage, Int8ActivationsAreForWeightsOfFewBits) {
  const workload::Decoder shape = workload::FindDecoderPreset("tiny_llama")->shape;
  for (const WeightFormat format : workload::kWeightFormats) {
    Storage storage = Storage::Default(format);
    storage.activations = Activations::kInt8;
    const absl::Status status = CheckStorage({.shape = shape}, storage);
    EXPECT_EQ(status.ok(), TakesActivations(format, Activations::kInt8)) << Name(format);
    if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr(std::string(Name(format))));
    }
  }
  Storage storage = Storage::Default(WeightFormat::kInt8);
  storage.activations = Activations::kInt8;
  storage.skipped.insert(LinearRole::kHead);
  const DecoderWeights weights =
      RandomWeights(ConfigOf(*workload::FindDecoderPreset("tiny_llama")), storage, 1).value();
  EXPECT_TRUE(weights.layers.front().down.MultipliesIntegers());
  EXPECT_FALSE(weights.head.MultipliesIntegers());
}

}  // namespace
}  // namespace roofbench::models
