// SPDX-License-Identifier: Apache-2.0
// Ranks that divide a decoder, as threads: their logits are those of one process in every format, and a fault of any of
// them is seen.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randint.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/models/checkpoint/checkpoint.h"
#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/make_decoder.h"
#include "lib/models/training/parallel.h"
#include "tests/models/checkpoint/written_checkpoint.h"
#include "tests/models/decoding/variants.h"
#include "tests/ranks/in_threads.h"

namespace roofbench::models {
namespace {

using testing::HasSubstr;
using workload::WeightFormat;

constexpr int64_t kPrompt = 5;
constexpr int64_t kTokens = 9;

// Heads, groups and tiles of every format for up to four ranks.
DecoderConfig DividedConfig(const Variant& variant) {
  DecoderConfig config = ConfigOf(*workload::FindDecoderPreset(variant.model));
  if (variant.has_all) AddEverything(config);
  workload::Transformer& shape = config.shape.base;
  shape.heads = 8;
  shape.kv_heads = 4;
  shape.head_size = 32;
  shape.d_ff = 256;
  return config;
}

DecoderWeights PartOf(const Variant& variant, const ModelPart& part) {
  Storage storage = Storage::Default(variant.format);
  storage.group = 32;
  if (variant.int8_activations) storage.activations = workload::Activations::kInt8;
  DecoderWeights weights = RandomWeights(DividedConfig(variant), storage, 1, at::kCPU, part).value();
  at::Generator generator = at::detail::createCPUGenerator(3);
  for (LayerWeights& layer : weights.layers) {
    // A bias of a product that is added up must count once.
    if (layer.out_bias.defined()) layer.out_bias.normal_(0, 1, generator);
    if (layer.attention_out_norm.defined()) layer.attention_out_norm.uniform_(0.5, 1.5, generator);
  }
  return weights;
}

// The logits after a prompt and after each of some tokens.
std::vector<at::Tensor> LogitsOf(DecoderModel& decoder) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(4);
  const at::Tensor tokens = at::randint(0, 96, {2, kTokens}, generator, at::kLong);
  std::vector<at::Tensor> logits = {decoder.Append(tokens.narrow(1, 0, kPrompt).contiguous()).clone()};
  for (int64_t i = kPrompt; i < kTokens; ++i) {
    logits.push_back(decoder.AppendOne(tokens.select(1, i).contiguous()).clone());
  }
  return logits;
}

double MostOff(const std::vector<at::Tensor>& result, const std::vector<at::Tensor>& reference) {
  double most = 0;
  for (std::size_t i = 0; i < result.size(); ++i) most = std::max(most, Off(result[i], reference[i]));
  return most;
}

std::vector<at::Tensor> Reference(const Variant& variant) {
  const DecoderWeights whole = PartOf(variant, {});
  EagerDecoder exact(whole, 2, kTokens, Arithmetic::kExact);
  return LogitsOf(exact);
}

// The same as a rank, with part `index` of the model.
std::vector<at::Tensor> LogitsAs(const Variant& variant, ranks::Group& group, int64_t index) {
  const std::unique_ptr<Parallel> hooks = Parallel::Make(ParallelKind::kTensor, group, 0);
  const DecoderWeights weights = PartOf(variant, {index, group.size()});
  return LogitsOf(*MakeDecoder(variant.implementation, weights, {.batch = 2, .capacity = kTokens}, 1, *hooks).value());
}

double Bound(const Variant& variant) { return variant.format == WeightFormat::kFp32 ? 1e-5 : 0.06; }

std::vector<Variant> Divided() {
  std::vector<Variant> variants = Variants(
      {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kLlmInt8});
  for (const char* implementation : {"eager", "native"}) {
    for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
      variants.push_back({implementation, "tiny_llama", format, /*has_all=*/false, /*int8_activations=*/true});
    }
  }
  for (const WeightFormat format : {WeightFormat::kFp16, WeightFormat::kFp8}) {
    variants.push_back({"eager", "tiny_llama", format});
  }
  return variants;
}

class TensorParallel : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (!ranks::GlooIsBuilt().ok()) GTEST_SKIP() << ranks::GlooIsBuilt();
  }
};

INSTANTIATE_TEST_SUITE_P(Variants, TensorParallel, testing::ValuesIn(Divided()),
                         [](const auto& instance) { return NameOf(instance.param); });

TEST_P(TensorParallel, LogitsAreThoseOfOneProcess) {
  const Variant variant = GetParam();
  const std::vector<at::Tensor> reference = Reference(variant);
  const std::unique_ptr<ranks::Group> alone = ranks::MakeAlone();
  EXPECT_LT(MostOff(LogitsAs(variant, *alone, 0), reference), Bound(variant));
  for (const int size : {2, 4}) {
    ranks::InGroup(size, [&](ranks::Group& group) {
      EXPECT_LT(MostOff(LogitsAs(variant, group, group.rank()), reference), Bound(variant))
          << "rank " << group.rank() << " of " << size;
    });
  }
}

// Joined parts are the whole matrix, bit by bit.
void ExpectPartOf(const DecoderWeights& whole, const DecoderWeights& own, const ModelPart& of) {
  const LayerWeights& layer = whole.layers.back();
  const LayerWeights& part = own.layers.back();
  const DecoderSizes n(whole.config.shape);
  const DecoderSizes m(own.config.shape);
  const auto values = [](const StoredMatrix& matrix, int64_t first, int64_t count) {
    return matrix.Dequantized(matrix.experts - 1, first, count);
  };
  EXPECT_EQ(m.q() * of.of, n.q());
  for (const auto& [begin, from, count] : {std::tuple(int64_t{0}, int64_t{0}, m.q()), std::tuple(m.q(), n.q(), m.kv()),
                                           std::tuple(m.q() + m.kv(), n.q() + n.kv(), m.kv())}) {
    EXPECT_TRUE(at::equal(values(part.qkv, begin, count), values(layer.qkv, from + of.index * count, count)));
  }
  EXPECT_TRUE(at::equal(values(part.gate_up, 0, m.ff), values(layer.gate_up, of.index * m.ff, m.ff)));
  EXPECT_TRUE(at::equal(values(part.gate_up, m.ff, m.ff), values(layer.gate_up, n.ff + of.index * m.ff, m.ff)));
  EXPECT_TRUE(at::equal(values(part.down, 0, n.d), values(layer.down, 0, n.d).narrow(1, of.index * m.ff, m.ff)));
  EXPECT_TRUE(at::equal(values(part.out, 0, n.d), values(layer.out, 0, n.d).narrow(1, of.index * m.q(), m.q())));
  EXPECT_TRUE(at::equal(own.embedding, whole.embedding));
  EXPECT_EQ(static_cast<double>(own.nbytes()), own.storage.Of(own.config.shape).ModelBytes());
}

TEST_P(TensorParallel, PartsHaveTheValuesOfTheWhole) {
  const DecoderWeights whole = PartOf(GetParam(), {});
  for (const int64_t parts : {2, 4}) {
    for (int64_t i = 0; i < parts; ++i) ExpectPartOf(whole, PartOf(GetParam(), {i, parts}), {i, parts});
  }
}

TEST(PartOfACheckpoint, IsQuantizedAsAWhole) {
  nlohmann::json fields = TinyConfig();
  for (const auto& [name, value] : {std::pair("hidden_size", 64), std::pair("intermediate_size", 128),
                                    std::pair("num_attention_heads", 4), std::pair("num_key_value_heads", 2)}) {
    fields[name] = value;
  }
  const std::string layer = "model.layers.0.";
  auto [header, data] = PackTensors({{"model.embed_tokens.weight", {10, 64}},
                                     {"model.norm.weight", {64}},
                                     {layer + "input_layernorm.weight", {64}},
                                     {layer + "post_attention_layernorm.weight", {64}},
                                     {layer + "self_attn.q_proj.weight", {64, 64}},
                                     {layer + "self_attn.k_proj.weight", {32, 64}},
                                     {layer + "self_attn.v_proj.weight", {32, 64}},
                                     {layer + "self_attn.o_proj.weight", {64, 64}},
                                     {layer + "mlp.gate_proj.weight", {128, 64}},
                                     {layer + "mlp.up_proj.weight", {128, 64}},
                                     {layer + "mlp.down_proj.weight", {64, 128}}});
  const auto count = static_cast<int64_t>(data.size() / sizeof(float));
  at::Generator generator = at::detail::createCPUGenerator(5);
  at::from_blob(data.data(), {count}, at::kFloat).normal_(0, 1, generator);
  const TemporaryFolder folder;
  folder.Write("config.json", fields.dump());
  folder.Write("model.safetensors", SafetensorsText(header.dump(), data));
  const Checkpoint checkpoint = Checkpoint::Open(folder.path()).value();
  for (const WeightFormat format :
       {WeightFormat::kFp32, WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kLlmInt8, WeightFormat::kFp8}) {
    Storage storage = Storage::Default(format);
    storage.group = 32;
    const DecoderWeights whole = LoadWeights(checkpoint, storage).value();
    for (int64_t i = 0; i < 2; ++i) ExpectPartOf(whole, LoadWeights(checkpoint, storage, {i, 2}).value(), {i, 2});
  }
}

// A rank whose n-th sum is its own term.
class MissedSum final : public ForwardHooks {
 public:
  MissedSum(ForwardHooks& inner, int missed) : inner_(inner), missed_(missed) {}
  at::Tensor FromShards(const at::Tensor& term) override {
    at::Tensor copy = term.clone();
    at::Tensor sum = inner_.FromShards(term);
    if (++sums_ == missed_) sum.copy_(copy);
    return sum;
  }

 private:
  ForwardHooks& inner_;
  const int missed_;
  int sums_ = 0;
};

TEST(PlantedFaultsOfTensorParallel, AreSeen) {
  if (!ranks::GlooIsBuilt().ok()) GTEST_SKIP() << ranks::GlooIsBuilt();
  for (const char* implementation : {"eager", "native"}) {
    for (const WeightFormat format : {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt4}) {
      const Variant variant{implementation, "tiny_llama", format};
      const std::vector<at::Tensor> reference = Reference(variant);
      // Two sums in each of two layers, of the prompt and of the first token after it.
      for (int missed = 1; missed <= 8; ++missed) {
        ranks::InGroup(2, [&](ranks::Group& group) {
          const std::unique_ptr<Parallel> hooks = Parallel::Make(ParallelKind::kTensor, group, 0);
          MissedSum faulty(*hooks, missed);
          const DecoderWeights weights = PartOf(variant, {group.rank(), 2});
          const auto decoder = MakeDecoder(implementation, weights, {.batch = 2, .capacity = kTokens}, 1,
                                           group.rank() == 0 ? static_cast<ForwardHooks&>(faulty) : *hooks)
                                   .value();
          const double off = MostOff(LogitsOf(*decoder), reference);
          if (group.rank() == 0) {
            EXPECT_GT(off, Bound(variant)) << NameOf(variant) << ", sum " << missed;
          }
        });
      }
      ranks::InGroup(2, [&](ranks::Group& group) {
        EXPECT_GT(MostOff(LogitsAs(variant, group, /*index=*/0), reference), Bound(variant)) << "the same part twice";
      });
    }
  }
}

// An exception reaches the caller, although threads of the step wait for each other.
TEST(PlantedFaultsOfTensorParallel, ALostRankEndsTheStep) {
  class Lost final : public ForwardHooks {
   public:
    at::Tensor FromShards(const at::Tensor& /*term*/) override { throw ranks::ContactLost("rank 1 is gone"); }
  };
  for (const char* implementation : {"eager", "native"}) {
    Lost lost;
    const DecoderWeights weights = PartOf({implementation, "tiny_llama", WeightFormat::kFp32}, {0, 2});
    const auto decoder = MakeDecoder(implementation, weights, {.batch = 2, .capacity = kTokens}, 3, lost).value();
    const at::NoGradGuard no_grad;
    for (int call = 0; call < 2; ++call) {
      EXPECT_THROW(decoder->AppendOne(at::randint(0, 96, {2}, at::kLong)), ranks::ContactLost) << implementation;
    }
  }
}

TEST(PartOfADecoder, NeedsEqualHeadsFeaturesGroupsAndTiles) {
  DecoderConfig config = DividedConfig({"eager", "tiny_llama", WeightFormat::kInt4});
  const auto refusal = [&](WeightFormat format, int64_t parts) {
    Storage storage = Storage::Default(format);
    storage.group = 64;
    return std::string(models::PartOf(config, storage, parts).status().message());
  };
  EXPECT_EQ(refusal(WeightFormat::kBf16, 4), "");
  EXPECT_THAT(refusal(WeightFormat::kBf16, 3), HasSubstr("3 ranks cannot divide the model's 8 heads of queries"));
  EXPECT_THAT(refusal(WeightFormat::kBf16, 8), HasSubstr("8 ranks cannot divide the model's 4 heads of keys"));
  EXPECT_EQ(refusal(WeightFormat::kInt4, 4), "");
  config.shape.base.d_ff = 4 * 96;
  EXPECT_EQ(refusal(WeightFormat::kInt8, 4), "");
  EXPECT_THAT(refusal(WeightFormat::kInt4, 4),
              HasSubstr("divided among 4 ranks: int4 in groups of 64 cannot hold rows"));
  config.shape.base.d_ff = 257;
  EXPECT_THAT(refusal(WeightFormat::kFp32, 2), HasSubstr("257 features of the feed-forward layers"));
}

}  // namespace
}  // namespace roofbench::models
