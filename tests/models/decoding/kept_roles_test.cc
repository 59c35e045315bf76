// SPDX-License-Identifier: Apache-2.0
// Decoders of which some linear layers stay unquantised.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/eager_decoder.h"

namespace roofbench::models {
namespace {

using workload::WeightFormat;

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

TEST_P(KeptRole, IsStoredAndMultipliedAsItIs) {
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

  // Of a model without experts, between which a last bit may decide.
  weights = RandomWeights(ConfigOf(*workload::FindDecoderPreset("tiny_llama")), storage, 1).value();
  at::Generator generator = at::detail::createCPUGenerator(3);
  const at::Tensor tokens = at::randint(0, 96, {2, 12}, generator, at::kLong);
  const at::Tensor exact = EagerDecoder(weights, 2, 12, Arithmetic::kExact).Append(tokens).clone();
  for (const char* implementation : {"eager", "native"}) {
    const at::Tensor found =
        MakeDecoder(implementation, weights, {.batch = 2, .capacity = 12}, 2).value()->Append(tokens).clone();
    EXPECT_LT(((found - exact).square().mean().sqrt() / exact.square().mean().sqrt()).item<double>(), 0.05)
        << implementation;
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
