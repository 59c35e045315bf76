// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/decoder_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/models/decoding/eager_decoder.h"
#include "tests/models/decoding/everything.h"

namespace roofbench::models {
namespace {

using workload::WeightFormat;

struct Variant {
  const char* implementation;
  const char* model;
  WeightFormat format;
  bool has_all = false;  // as AddEverything has it
  bool int8_activations = false;
};

// Zeros and ones would hide a bias that is not added, or a norm of other heads.
void FillVectors(DecoderWeights& weights, at::Generator& generator) {
  for (LayerWeights& layer : weights.layers) {
    layer.qkv_bias.normal_(0, 1, generator);
    layer.query_norm.uniform_(0.5, 1.5, generator);
    layer.key_norm.uniform_(0.5, 1.5, generator);
    for (at::Tensor* norm : {&layer.attention_out_norm, &layer.mlp_out_norm}) {
      if (norm->defined()) norm->uniform_(0.5, 1.5, generator);
    }
  }
}

class DecoderTest : public testing::TestWithParam<Variant> {
 protected:
  DecoderTest() : generator_(at::detail::createCPUGenerator(3)) {
    Storage storage = Storage::Default(GetParam().format);
    storage.group = 32;
    if (GetParam().int8_activations) storage.activations = workload::Activations::kInt8;
    DecoderConfig config = ConfigOf(*workload::FindDecoderPreset(GetParam().model));
    if (GetParam().has_all) AddEverything(config);
    weights_ = RandomWeights(config, storage, 1).value();
    if (GetParam().has_all) FillVectors(weights_, generator_);
  }
  std::unique_ptr<DecoderModel> Make(int64_t batch) {
    return MakeDecoder(GetParam().implementation, weights_, {.batch = batch, .capacity = 40}, 2).value();
  }
  at::Tensor Tokens(int64_t batch, int64_t n) { return at::randint(0, 96, {batch, n}, generator_, at::kLong); }
  // Root mean square of the difference over that of b.
  static double Off(const at::Tensor& a, const at::Tensor& b) {
    return ((a - b).square().mean().sqrt() / b.square().mean().sqrt()).item<double>();
  }
  // Of two runs in the format's own precision.
  double Bound() const { return GetParam().format == WeightFormat::kFp32 ? 1e-5 : 0.06; }

  const at::NoGradGuard no_grad_;
  at::Generator generator_;
  DecoderWeights weights_;
};

TEST_P(DecoderTest, AgreesWithExactArithmeticOnTheSameWeights) {
  const at::Tensor tokens = Tokens(2, 12);
  EagerDecoder exact(weights_, 2, 40, Arithmetic::kExact);
  const auto decoder = Make(2);
  at::Tensor logits = decoder->Append(tokens.narrow(1, 0, 7).contiguous()).clone();
  EXPECT_LT(Off(logits, exact.Append(tokens.narrow(1, 0, 7).contiguous())), Bound());
  for (int64_t i = 7; i < 12; ++i) {
    const at::Tensor next = tokens.select(1, i).contiguous();
    logits = decoder->AppendOne(next).clone();
    EXPECT_LT(Off(logits, exact.AppendOne(next)), Bound()) << i;
  }
}

TEST_P(DecoderTest, DecodeAfterPrefillIsOneLongPrefill) {
  const at::Tensor tokens = Tokens(1, 20);
  const auto whole = Make(1);
  const at::Tensor expected = whole->Append(tokens).clone();
  const auto stepwise = Make(1);
  stepwise->Append(tokens.narrow(1, 0, 5).contiguous());
  stepwise->Append(tokens.narrow(1, 5, 6).contiguous());  // a prompt that is continued
  at::Tensor logits;
  for (int64_t i = 11; i < 20; ++i) logits = stepwise->AppendOne(tokens.select(1, i).contiguous());
  EXPECT_EQ(stepwise->length(), 20);
  EXPECT_LT(Off(logits, expected), Bound());
}

// What a CUDA graph would record, at every length with the same tensors.
TEST_P(DecoderTest, ASetTokenIsAppendedAsAnyOther) {
  if (weights_.config.shape.IsMixture() || GetParam().format == WeightFormat::kLlmInt8 ||
      std::string(GetParam().implementation) != "eager") {
    GTEST_SKIP() << "LibTorch's operations alone, where the host chooses nothing";
  }
  const at::Tensor tokens = Tokens(2, 12);
  EagerDecoder usual(weights_, 2, 40);
  EagerDecoder set(weights_, 2, 40);
  usual.Append(tokens.narrow(1, 0, 7).contiguous());
  set.Append(tokens.narrow(1, 0, 7).contiguous());
  for (int64_t i = 7; i < 12; ++i) {
    const at::Tensor next = tokens.select(1, i).contiguous();
    set.SetToken(next);
    // As often as one likes before it counts: a recording runs it several times.
    set.AppendSet();
    set.AppendSet();
    const at::Tensor logits = set.CountSet();
    EXPECT_LT(Off(logits, usual.AppendOne(next)), Bound()) << i;
    EXPECT_EQ(set.length(), usual.length());
  }
}

TEST_P(DecoderTest, TellsTheComponents) {
  using workload::DecoderComponent;
  const auto decoder = Make(2);
  std::vector<DecoderComponent> components;
  decoder->ObserveComponents([&](DecoderComponent component) { components.push_back(component); });
  const at::Tensor tokens = Tokens(2, 1);
  decoder->AppendOne(tokens.select(1, 0).contiguous());
  const bool is_mixture = weights_.config.shape.IsMixture();
  const bool waits = std::string_view(GetParam().implementation) == "native";
  std::vector<DecoderComponent> expected;
  const auto expect = [&](std::initializer_list<DecoderComponent> some, bool then_wait) {
    expected.insert(expected.end(), some);
    if (then_wait && waits) expected.push_back(DecoderComponent::kWait);
  };
  for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    expect({DecoderComponent::kNorm, DecoderComponent::kQkv}, true);
    expect({DecoderComponent::kAttention}, true);
    expect({DecoderComponent::kOut}, true);
    expect({DecoderComponent::kNorm}, false);
    if (is_mixture) expect({DecoderComponent::kRouter}, false);
    expect({DecoderComponent::kGateUp, DecoderComponent::kGate}, true);
    expect({DecoderComponent::kDown}, true);
  }
  expect({DecoderComponent::kNorm, DecoderComponent::kHead}, true);
  // As many experts take part as the tokens choose. The native decoder goes through their first products before the
  // second ones, the eager one expert by expert.
  const auto once = [&](std::vector<DecoderComponent> told) {
    const auto is_of_expert = [](DecoderComponent component) {
      return component == DecoderComponent::kGateUp || component == DecoderComponent::kGate ||
             component == DecoderComponent::kDown;
    };
    std::vector<DecoderComponent> kept;
    std::set<DecoderComponent> seen;
    for (const DecoderComponent component : told) {
      if (component == DecoderComponent::kNorm) seen.clear();
      if (!is_of_expert(component) || seen.insert(component).second) kept.push_back(component);
    }
    return kept;
  };
  EXPECT_EQ(once(components), expected);
  if (!is_mixture) {
    EXPECT_EQ(components, expected);
  }
  const std::size_t told = components.size();
  decoder->ObserveComponents(nullptr);
  decoder->AppendOne(tokens.select(1, 0).contiguous());
  EXPECT_EQ(components.size(), told);
}

TEST_P(DecoderTest, TellsTheStagesOfLlmInt8) {
  const auto decoder = Make(2);
  std::vector<LlmInt8Stage> stages;
  decoder->ObserveStages([&](LlmInt8Stage stage) { stages.push_back(stage); });
  const at::Tensor tokens = Tokens(2, 1);
  decoder->AppendOne(tokens.select(1, 0).contiguous());
  const bool is_native = std::string_view(GetParam().implementation) == "native";
  // LibTorch multiplies int4 as it does without them.
  const bool rounds = GetParam().int8_activations && (is_native || GetParam().format == WeightFormat::kInt8);
  if (GetParam().format != WeightFormat::kLlmInt8 && !rounds) {
    EXPECT_TRUE(stages.empty());
    return;
  }
  // A product at a time: other, select, quantise and product, which may come in pieces and is the last of our kernel.
  const auto last = is_native ? LlmInt8Stage::kProduct : LlmInt8Stage::kOutliers;
  std::size_t products = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const bool begins = stages[i] == LlmInt8Stage::kOther;
    products += begins ? 1 : 0;
    const LlmInt8Stage before = i == 0 ? last : stages[i - 1];
    if (begins) {
      EXPECT_EQ(before, last) << i;
    } else if (before != last) {
      EXPECT_EQ(static_cast<int>(stages[i]), static_cast<int>(before) + 1) << i;
    } else {
      EXPECT_EQ(stages[i], LlmInt8Stage::kProduct) << i;
    }
  }
  EXPECT_GE(products, 4 * weights_.layers.size());
  const std::size_t told = stages.size();
  decoder->ObserveStages(nullptr);
  decoder->AppendOne(tokens.select(1, 0).contiguous());
  EXPECT_EQ(stages.size(), told);
}

TEST_P(DecoderTest, CountsTheOutlierColumnsOfLlmInt8) {
  weights_.storage.outlier_threshold = 1.5;
  const auto decoder = Make(2);
  const at::Tensor tokens = Tokens(2, 6);
  EagerDecoder eager(weights_, 2, 40);
  for (const bool prompt : {true, false}) {
    for (DecoderModel* one : {static_cast<DecoderModel*>(&eager), decoder.get()}) {
      prompt ? one->Append(tokens.narrow(1, 0, 5).contiguous()) : one->AppendOne(tokens.select(1, 5).contiguous());
    }
    ASSERT_EQ(decoder->OutlierColumns().has_value(), GetParam().format == WeightFormat::kLlmInt8);
    if (!decoder->OutlierColumns()) continue;
    EXPECT_GT(*decoder->OutlierColumns(), 1);
    EXPECT_LT(*decoder->OutlierColumns(), weights_.config.shape.base.d_ff);
    // A last bit decides near the threshold.
    EXPECT_NEAR(*decoder->OutlierColumns(), *eager.OutlierColumns(), 2);
  }
}

TEST_P(DecoderTest, ABatchIsItsSequences) {
  const at::Tensor tokens = Tokens(3, 9);
  const auto batch = Make(3);
  batch->Append(tokens.narrow(1, 0, 8).contiguous());
  const at::Tensor together = batch->AppendOne(tokens.select(1, 8).contiguous()).clone();
  for (int64_t b = 0; b < 3; ++b) {
    const auto alone = Make(1);
    alone->Append(tokens[b].narrow(0, 0, 8).unsqueeze(0).contiguous());
    const at::Tensor last = tokens[b].narrow(0, 8, 1).contiguous();
    EXPECT_LT(Off(together[b], alone->AppendOne(last)[0]), Bound()) << b;
  }
}

TEST_P(DecoderTest, TruncatedItReadsOnFromThere) {
  const at::Tensor tokens = Tokens(1, 10);
  const auto decoder = Make(1);
  decoder->Append(tokens);
  const at::Tensor next = at::full({1}, 5, at::kLong);
  const at::Tensor first = decoder->AppendOne(next).clone();
  decoder->Truncate(10);
  EXPECT_TRUE(decoder->AppendOne(next).equal(first));
}

std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  for (const char* implementation : {"eager", "native"}) {
    for (const WeightFormat format :
         {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kLlmInt8}) {
      variants.push_back({implementation, "tiny_llama", format});
      variants.push_back({implementation, "tiny_llama", format, /*has_all=*/true});
    }
    for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
      variants.push_back({implementation, "tiny_llama", format, /*has_all=*/false, /*int8_activations=*/true});
    }
    variants.push_back({implementation, "tiny_mixtral", WeightFormat::kFp32});
  }
  return variants;
}

INSTANTIATE_TEST_SUITE_P(Each, DecoderTest, testing::ValuesIn(Variants()), [](const auto& instance) {
  return std::string(instance.param.implementation) + "_" + instance.param.model + "_" +
         std::string(Name(instance.param.format)) + (instance.param.has_all ? "_all" : "") +
         (instance.param.int8_activations ? "_by_int8" : "");
});

// Windows of all layers or of one, biases and norms of heads: a prompt behind a mask, token by token, and as a graph
// would record it.
TEST(DecoderWithAWindow, EveryWayToReadATextAgrees) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(3);
  DecoderConfig config = ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  config.shape.attention_bias = true;
  config.shape.head_norms = true;
  DecoderWeights weights = RandomWeights(config, Storage::Default(WeightFormat::kFp32), 1).value();
  FillVectors(weights, generator);
  const at::Tensor tokens = at::randint(0, 96, {2, 20}, generator, at::kLong);
  const auto logits_of = [&](DecoderModel& decoder, int64_t prompt) {
    at::Tensor logits = decoder.Append(tokens.narrow(1, 0, prompt).contiguous());
    for (int64_t i = prompt; i < 20; ++i) logits = decoder.AppendOne(tokens.select(1, i).contiguous());
    return logits.clone();
  };
  std::vector<at::Tensor> others;  // of other windows
  EagerDecoder without(weights, 2, 24);
  others.push_back(logits_of(without, 20));
  weights.config.shape.window = 6;
  for (const std::set<int64_t>& whole : {std::set<int64_t>{}, {0}, {1}}) {
    weights.config.whole_layers = whole;
    EagerDecoder exact(weights, 2, 24, Arithmetic::kExact);
    const at::Tensor expected = logits_of(exact, 20);
    for (const at::Tensor& other : others) {
      EXPECT_GT((other - expected).abs().max().item<double>(), 0.1) << "the window makes no difference";
    }
    others.push_back(expected);
    for (const char* implementation : {"eager", "native"}) {
      for (const int64_t prompt : {1, 4, 13, 20}) {
        const auto decoder = MakeDecoder(implementation, weights, {.batch = 2, .capacity = 24}, 2).value();
        EXPECT_LT((logits_of(*decoder, prompt) - expected).abs().max().item<double>(), 1e-4)
            << implementation << prompt;
      }
    }
    EagerDecoder set(weights, 2, 24);
    set.Append(tokens.narrow(1, 0, 3).contiguous());
    for (int64_t i = 3; i < 20; ++i) {
      set.SetToken(tokens.select(1, i).contiguous());
      set.AppendSet();
      set.CountSet();
    }
    set.Truncate(19);
    set.SetToken(tokens.select(1, 19).contiguous());
    set.AppendSet();
    EXPECT_LT((set.CountSet() - expected).abs().max().item<double>(), 1e-4);
  }
}

// 1.003 is one in bf16.
TEST(DecoderWithNormsInFp32, DoesNotRoundTheirWeightsOnTheWay) {
  const at::NoGradGuard no_grad;
  DecoderConfig config = ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  config.shape.fp32_norms = true;
  DecoderWeights weights = RandomWeights(config, Storage::Default(WeightFormat::kBf16), 1).value();
  const at::Tensor tokens = at::full({1, 4}, 5, at::kLong);
  for (const char* implementation : {"eager", "native"}) {
    const auto logits = [&] {
      const auto decoder = MakeDecoder(implementation, weights, {.capacity = 8}, 2).value();
      decoder->Append(tokens);
      return decoder->AppendOne(tokens.select(1, 0).contiguous()).clone();
    };
    weights.final_norm.fill_(1);
    const at::Tensor before = logits();
    weights.final_norm.fill_(1.003);
    EXPECT_FALSE(logits().equal(before)) << implementation;
  }
}

TEST(Storage, WhatEachLinearBecomes) {
  const Storage int8 = Storage::Default(WeightFormat::kInt8);
  EXPECT_EQ(int8.FormatOf(LinearRole::kQkv), WeightFormat::kInt8);
  EXPECT_EQ(int8.FormatOf(LinearRole::kHead), WeightFormat::kInt8);
  EXPECT_EQ(int8.FormatOf(LinearRole::kRouter), WeightFormat::kBf16);
  const Storage llm_int8 = Storage::Default(WeightFormat::kLlmInt8);
  EXPECT_EQ(llm_int8.FormatOf(LinearRole::kDown), WeightFormat::kLlmInt8);
  EXPECT_EQ(llm_int8.FormatOf(LinearRole::kHead), WeightFormat::kBf16);
}

}  // namespace
}  // namespace roofbench::models
