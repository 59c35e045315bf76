// SPDX-License-Identifier: Apache-2.0
// What lies between products with quantised weights can be in fp16: nearer to exact than bf16, and with a largest
// number that sums must not pass on their way.

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

#include <string>

#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/workload/models/decoder_presets.h"

namespace roofbench::models {
namespace {

using workload::Activations;
using workload::WeightFormat;

double Off(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).square().mean().sqrt() / b.square().mean().sqrt()).item<double>();
}

Storage StorageOf(WeightFormat format, Activations activations) {
  Storage storage = Storage::Default(format);
  storage.group = 32;
  storage.activations = activations;
  return storage;
}

class DecoderOfFp16Activations : public testing::TestWithParam<WeightFormat> {};

// The same weights: what the exact decoder says of both is one.
TEST_P(DecoderOfFp16Activations, IsNearerToExactThanOneOfBf16) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(3);
  DecoderConfig config = ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  config.shape.attention_bias = config.shape.head_norms = true;
  const at::Tensor tokens = at::randint(0, 96, {2, 12}, generator, at::kLong);
  double off[2];
  for (const Activations activations : {Activations::kDefault, Activations::kFp16}) {
    DecoderWeights weights = RandomWeights(config, StorageOf(GetParam(), activations), 1).value();
    // Numbers that both types hold, so that it is the activations alone which differ.
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
  // Eight times finer; LLM.int8() rounds activations to 8 bits besides.
  EXPECT_LT(off[1], off[0] * (GetParam() == WeightFormat::kLlmInt8 ? 1 : 0.3));
  EXPECT_GT(off[1], 0);
}

INSTANTIATE_TEST_SUITE_P(Each, DecoderOfFp16Activations,
                         testing::Values(WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kLlmInt8),
                         [](const auto& instance) { return std::string(Name(instance.param)); });

// The sum of x times the int8 numbers is 127 times the result's size.
TEST(Fp16Activations, ASumOfInt8NumbersIsMoreThanTheyHold) {
  const at::NoGradGuard no_grad;
  constexpr int64_t kColumns = 512;
  StoredMatrix matrix = StoredMatrix::Empty(WeightFormat::kInt8, 1, 16, kColumns, 64);
  matrix.Store(0, 0, at::full({16, kColumns}, 0.25));
  const at::Tensor x = at::full({2, kColumns}, 2.0, at::kHalf);
  const at::Tensor y = matrix.Apply(x, 0, 0);
  ASSERT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_LT(Off(y.to(at::kFloat), at::linear(x.to(at::kFloat), matrix.Dequantised(0, 0, 16))), 1e-3);
}

TEST(Fp16Activations, AreForQuantisedWeightsAndOfNoKernelOfOurs) {
  const at::NoGradGuard no_grad;
  const DecoderConfig config = ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  for (const WeightFormat format : workload::kWeightFormats) {
    const Storage storage = StorageOf(format, Activations::kFp16);
    const absl::Status status = CheckStorage(config, storage);
    EXPECT_EQ(status.ok(), workload::UnquantizedFormat(format) != format) << Name(format);
    if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr("not for " + std::string(Name(format))));
      continue;
    }
    const DecoderWeights weights = RandomWeights(config, storage, 1).value();
    const absl::Status native = MakeDecoder("native", weights, {.capacity = 4}, 1).status();
    EXPECT_EQ(native.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(native.message()), testing::HasSubstr("the eager decoder takes it"));
  }
}

}  // namespace
}  // namespace roofbench::models
