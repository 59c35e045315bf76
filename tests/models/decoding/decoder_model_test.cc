// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/aten/row_operations.h"
#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/make_decoder.h"
#include "lib/workload/models/decoder.h"
#include "tests/kernels/simd/trapped_tiles.h"
#include "tests/models/decoding/variants.h"
#include "tests/models/race.h"

namespace roofbench::models {
namespace {

using workload::WeightFormat;

// Zeros and ones would hide a missing bias, or the norm of other heads.
void FillVectors(DecoderWeights& weights, at::Generator& generator) {
  for (LayerWeights& layer : weights.layers) {
    layer.qkv_bias.normal_(0, 1, generator);
    if (layer.out_bias.defined()) layer.out_bias.normal_(0, 1, generator);
    layer.query_norm.uniform_(0.5, 1.5, generator);
    layer.key_norm.uniform_(0.5, 1.5, generator);
    for (at::Tensor* norm : {&layer.attention_out_norm, &layer.mlp_out_norm}) {
      if (norm->defined()) norm->uniform_(0.5, 1.5, generator);
    }
  }
}

// The logits of the last token, after a prompt of the first tokens and the others one by one.
at::Tensor Read(DecoderModel& decoder, const at::Tensor& tokens, int64_t prompt) {
  at::Tensor logits = decoder.Append(tokens.narrow(1, 0, prompt).contiguous());
  for (int64_t i = prompt; i < tokens.size(1); ++i) logits = decoder.AppendOne(tokens.select(1, i).contiguous());
  return logits.clone();
}

class DecoderTest : public testing::TestWithParam<Variant> {
 protected:
  DecoderTest() : generator_(at::detail::createCPUGenerator(3)) {
    weights_ = WeightsOf(GetParam());
    if (GetParam().has_all) FillVectors(weights_, generator_);
  }
  std::unique_ptr<DecoderModel> Make(int64_t batch) {
    return MakeDecoder(GetParam().implementation, weights_, {.batch = batch, .capacity = 40}, 2).value();
  }
  at::Tensor Tokens(int64_t batch, int64_t n) { return at::randint(0, 96, {batch, n}, generator_, at::kLong); }
  // The bound of Off for two runs in the format's precision.
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

// As a CUDA graph records it, with the same tensors at every length.
TEST_P(DecoderTest, SetTokensEqualAppendedOnes) {
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
    // A recording runs it several times before it counts.
    set.AppendSet();
    set.AppendSet();
    const at::Tensor logits = set.CountSet();
    EXPECT_LT(Off(logits, usual.AppendOne(next)), Bound()) << i;
    EXPECT_EQ(set.length(), usual.length());
  }
}

TEST_P(DecoderTest, ReportsTheComponents) {
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
  // The tokens choose the experts that take part. The native decoder computes their first products before the second
  // ones, the eager decoder runs expert by expert.
  const auto once = [&](std::vector<DecoderComponent> reported) {
    const auto is_of_expert = [](DecoderComponent component) {
      return component == DecoderComponent::kGateUp || component == DecoderComponent::kGate ||
             component == DecoderComponent::kDown;
    };
    std::vector<DecoderComponent> kept;
    std::set<DecoderComponent> seen;
    for (const DecoderComponent component : reported) {
      if (component == DecoderComponent::kNorm) seen.clear();
      if (!is_of_expert(component) || seen.insert(component).second) kept.push_back(component);
    }
    return kept;
  };
  EXPECT_EQ(once(components), expected);
  if (!is_mixture) {
    EXPECT_EQ(components, expected);
  }
  const std::size_t reported = components.size();
  decoder->ObserveComponents(nullptr);
  decoder->AppendOne(tokens.select(1, 0).contiguous());
  EXPECT_EQ(components.size(), reported);
}

TEST_P(DecoderTest, ReportsTheStagesOfLlmInt8) {
  const auto decoder = Make(2);
  std::vector<Int8Stage> stages;
  decoder->ObserveStages([&](Int8Stage stage) { stages.push_back(stage); });
  const at::Tensor tokens = Tokens(2, 1);
  decoder->AppendOne(tokens.select(1, 0).contiguous());
  const bool is_native = std::string_view(GetParam().implementation) == "native";
  // LibTorch multiplies int4 as without int8 activations.
  const bool rounds = GetParam().int8_activations && (is_native || GetParam().format == WeightFormat::kInt8);
  if (GetParam().format != WeightFormat::kLlmInt8 && !rounds) {
    EXPECT_TRUE(stages.empty());
    return;
  }
  // For each product: other, select, quantize and product, which may come in pieces, and is the last stage of our
  // kernel.
  const auto last = is_native ? Int8Stage::kProduct : Int8Stage::kOutliers;
  std::size_t products = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const bool begins = stages[i] == Int8Stage::kOther;
    products += begins ? 1 : 0;
    const Int8Stage before = i == 0 ? last : stages[i - 1];
    if (begins) {
      EXPECT_EQ(before, last) << i;
    } else if (before != last) {
      EXPECT_EQ(static_cast<int>(stages[i]), static_cast<int>(before) + 1) << i;
    } else {
      EXPECT_EQ(stages[i], Int8Stage::kProduct) << i;
    }
  }
  EXPECT_GE(products, 4 * weights_.layers.size());
  const std::size_t reported = stages.size();
  decoder->ObserveStages(nullptr);
  decoder->AppendOne(tokens.select(1, 0).contiguous());
  EXPECT_EQ(stages.size(), reported);
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
    // A last bit may decide near the threshold.
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

TEST_P(DecoderTest, ContinuesAfterTruncate) {
  const at::Tensor tokens = Tokens(1, 10);
  const auto decoder = Make(1);
  decoder->Append(tokens);
  const at::Tensor next = at::full({1}, 5, at::kLong);
  const at::Tensor first = decoder->AppendOne(next).clone();
  decoder->Truncate(10);
  EXPECT_TRUE(decoder->AppendOne(next).equal(first));
}

std::vector<Variant> DecoderVariants() {
  std::vector<Variant> variants = Variants(
      {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kLlmInt8});
  variants.push_back({"eager", "tiny_llama", WeightFormat::kFp8});
  variants.push_back({"eager", "tiny_llama", WeightFormat::kFp8, /*has_all=*/true});
  for (const char* implementation : {"eager", "native"}) {
    for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
      variants.push_back({implementation, "tiny_llama", format, /*has_all=*/false, /*int8_activations=*/true});
    }
  }
  return variants;
}

INSTANTIATE_TEST_SUITE_P(Each, DecoderTest, testing::ValuesIn(DecoderVariants()),
                         [](const auto& instance) { return NameOf(instance.param); });

// 1.003 is one in bf16.
TEST(DecoderWithNormsInFp32, DoesNotRoundTheirWeights) {
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

TEST(Storage, FormatOfEachLinearLayer) {
  const Storage int8 = Storage::Default(WeightFormat::kInt8);
  EXPECT_EQ(int8.FormatOf(LinearRole::kQkv), WeightFormat::kInt8);
  EXPECT_EQ(int8.FormatOf(LinearRole::kHead), WeightFormat::kInt8);
  EXPECT_EQ(int8.FormatOf(LinearRole::kRouter), WeightFormat::kBf16);
  const Storage llm_int8 = Storage::Default(WeightFormat::kLlmInt8);
  EXPECT_EQ(llm_int8.FormatOf(LinearRole::kDown), WeightFormat::kLlmInt8);
  EXPECT_EQ(llm_int8.FormatOf(LinearRole::kHead), WeightFormat::kBf16);
}

TEST(NativeDecoder, RefusesWeightsInFp8) {
  const DecoderWeights weights = WeightsOf({"native", "tiny_llama", WeightFormat::kFp8});
  const absl::Status status = MakeDecoder("native", weights, {.capacity = 4}, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("fp8; the eager decoder does"));
}

// The tiles of the processor, chosen by their time: where their instructions are trapped, each takes as long as a whole
// product of LibTorch's.
TEST(NativeDecoder, MeasuresTheTilesOfTheProcessor) {
  const kernels::TrappedTiles trapped;
  if (trapped.executed() < 0) GTEST_SKIP() << "this processor has tiles, or: " << kernels::kNoTiles;
  const at::NoGradGuard no_grad;
  const DecoderWeights weights = WeightsOf({"native", "tiny_llama", WeightFormat::kBf16});
  const at::Tensor tokens = at::arange(37).view({1, 37});
  EagerDecoder exact(weights, 1, 37, Arithmetic::kExact);
  EagerDecoder eager(weights, 1, 37);
  const at::Tensor expected = exact.Append(tokens);
  const double most = 1.2 * Off(eager.Append(tokens), expected);
  MeasuredChoice choice;
  for (MeasuredChoice* const by_time : {static_cast<MeasuredChoice*>(nullptr), &choice}) {
    const auto native = MakeDecoder("fastest", weights, {.capacity = 37, .choice = by_time}, 2).value();
    EXPECT_LT(Off(native->Append(tokens), expected), most);
    const auto products = static_cast<int64_t>(4 * weights.layers.size());
    EXPECT_EQ(native->TileProducts(), by_time == nullptr ? products : 0);
    EXPECT_EQ(native->LibraryKernels() >= products, by_time != nullptr);
  }
  EXPECT_GT(trapped.executed(), 0);
}

// The native decoder by tiles, which are emulated here.
constexpr const kernels::TileLinearKernels* kEmulated = &kernels::kTileLinearKernels<kernels::EmulatedTiles>;

class DecoderByTiles : public testing::TestWithParam<Variant> {
 protected:
  DecoderByTiles() : generator_(at::detail::createCPUGenerator(3)), weights_(WeightsOf(GetParam())) {
    if (GetParam().has_all) FillVectors(weights_, generator_);
  }
  std::unique_ptr<DecoderModel> Make(int64_t batch, int64_t piece, MeasuredChoice* choice = nullptr,
                                     ForwardHooks& hooks = NoHooks()) {
    const DecoderRoom room{
        .batch = batch, .capacity = kTokens + kNew, .piece = piece, .tiles = kEmulated, .choice = choice};
    return MakeDecoder("fastest", weights_, room, 2, hooks).value();
  }
  at::Tensor Tokens(int64_t batch, int64_t n) { return at::randint(0, 96, {batch, n}, generator_, at::kLong); }
  int64_t Layers() const { return static_cast<int64_t>(weights_.layers.size()); }

  // A step of `piece` tokens of each sequence after a prompt; returns its products by tiles.
  int64_t Step(int64_t batch, int64_t piece) {
    EagerDecoder exact(weights_, batch, kTokens, Arithmetic::kExact);
    EagerDecoder eager(weights_, batch, kTokens);
    const auto tiled = Make(batch, piece);
    const at::Tensor prompt = Tokens(batch, 6);
    for (DecoderModel* one : {static_cast<DecoderModel*>(&exact), static_cast<DecoderModel*>(&eager), tiled.get()}) {
      one->Append(prompt);
    }
    const at::Tensor tokens = Tokens(batch, piece);
    const at::Tensor expected = exact.AppendAll(tokens);
    EXPECT_LT(Off(tiled->AppendAll(tokens), expected), 1.2 * Off(eager.AppendAll(tokens), expected)) << batch;
    return tiled->TileProducts();
  }

  static constexpr int64_t kTokens = 37;  // of prompts
  static constexpr int64_t kNew = 64;
  const at::NoGradGuard no_grad_;
  at::Generator generator_;
  DecoderWeights weights_;
};

TEST_P(DecoderByTiles, ReadsPrompts) {
  const at::Tensor tokens = Tokens(2, kTokens);
  EagerDecoder exact(weights_, 2, kTokens, Arithmetic::kExact);
  EagerDecoder eager(weights_, 2, kTokens);
  const auto tiled = Make(2, 1);
  const at::Tensor expected = exact.Append(tokens);
  EXPECT_LT(Off(tiled->Append(tokens), expected), 1.2 * Off(eager.Append(tokens), expected));
  if (weights_.config.shape.IsMixture()) {
    EXPECT_GT(tiled->TileProducts(), 3 * Layers()) << "and of some experts";
  } else {
    EXPECT_EQ(tiled->TileProducts(), 4 * Layers()) << "of the head only two rows are needed";
  }
  tiled->AppendOne(tokens.select(1, 0).contiguous());
  EXPECT_EQ(tiled->TileProducts(), 0);
}

TEST_P(DecoderByTiles, TakesStepsOfManyTokens) {
  const WeightFormat format = GetParam().format;
  const bool are_tiled = format == WeightFormat::kBf16 || format == WeightFormat::kInt4;
  if (weights_.config.shape.IsMixture()) {
    EXPECT_GT(Step(24, 4), 2 * Layers() + 1) << "some experts have tokens for tiles";
  } else {
    EXPECT_EQ(Step(9, 4), are_tiled ? 4 * Layers() + 1 : 0);
  }
}

TEST_P(DecoderByTiles, DecodesFromEightSequencesOn) {
  const bool is_bf16 = GetParam().format == WeightFormat::kBf16;
  const bool is_int4 = GetParam().format == WeightFormat::kInt4;
  EXPECT_EQ(Step(7, 1), 0);
  for (const int64_t batch : {8, 9}) {
    if (weights_.config.shape.IsMixture()) {
      EXPECT_GE(Step(batch, 1), 2 * Layers() + 1) << batch << " sequences, whose experts may have fewer tokens";
    } else {
      EXPECT_EQ(Step(batch, 1), is_bf16 ? 4 * Layers() + 1 : 0) << batch;
    }
  }
  // Of 15 tokens, one comes near to a tie of two of a mixture's experts, which rounding decides.
  if (!weights_.config.shape.IsMixture()) {
    EXPECT_EQ(Step(15, 1), is_bf16 || is_int4 ? 4 * Layers() + 1 : 0);
  }
}

TEST_P(DecoderByTiles, TakesOursWhereItIsFaster) {
  const at::Tensor tokens = Tokens(2, kTokens);
  const auto always = Make(2, 1);
  Race race(/*ours=*/true);
  const auto measured = Make(2, 1, race.choice());
  EXPECT_TRUE(measured->Append(tokens).equal(always->Append(tokens)));
  EXPECT_GT(race.runs(), 0);
  EXPECT_EQ(measured->TileProducts(), always->TileProducts());
  EXPECT_EQ(measured->LibraryKernels(), 0);
}

TEST_P(DecoderByTiles, NativeTakesOursAlone) {
  const at::Tensor tokens = Tokens(2, kTokens);
  const auto always = Make(2, 1);
  Race race(/*ours=*/false);
  const DecoderRoom room{.batch = 2, .capacity = kTokens, .tiles = kEmulated, .choice = race.choice()};
  const auto native = MakeDecoder("native", weights_, room, 2).value();
  native->Prepare(2, kTokens);
  EXPECT_TRUE(native->Append(tokens).equal(always->Append(tokens)));
  EXPECT_EQ(race.runs(), 0);
  EXPECT_EQ(native->TileProducts(), always->TileProducts());
  EXPECT_EQ(native->LibraryKernels(), 0);
}

TEST_P(DecoderByTiles, TakesLibTorchsWhereItIsFaster) {
  const at::Tensor tokens = Tokens(2, kTokens);
  weights_.config.score_scale = 0.25;
  EagerDecoder eager(weights_, 2, 2 * kTokens);
  Race race(/*ours=*/false);
  const auto measured = Make(2, 1, race.choice());
  // Norms, gates and rotations are ours in any case.
  const kernels::SerialFor serial;
  eager.NormBy([&](const at::Tensor& x, const at::Tensor& weight) {
    return x.is_contiguous() ? RmsNormOfRows(x, weight, weights_.config.rms_epsilon, serial) : at::Tensor();
  });
  eager.GateBy([&](const at::Tensor& gate_up) { return SiluMulOfHalves(gate_up, serial); });
  eager.TurnBy([&](const at::Tensor& heads, const at::Tensor& cosines, const at::Tensor& sines) {
    TurnHeads(heads, cosines, sines, serial);
    return true;
  });
  const at::Tensor expected = eager.Append(tokens);
  if (GetParam().has_all) {
    EXPECT_LT(Off(measured->Append(tokens), expected), 0.06) << "a bias is added before rounding; scores are capped";
  } else {
    EXPECT_TRUE(measured->Append(tokens).equal(expected));
  }
  EXPECT_EQ(measured->TileProducts(), 0);
  const int64_t kernels = measured->LibraryKernels();
  const int64_t runs = race.runs();
  if (weights_.config.shape.IsMixture()) {
    EXPECT_GT(kernels, 4 * Layers()) << "and of some experts";
  } else {
    const int64_t in_layer = GetParam().has_all ? 4 : 5;
    EXPECT_EQ(kernels, in_layer * Layers());
    EXPECT_EQ(runs, 6 * in_layer) << "three of both for each shape";
  }
  measured->Truncate(0);
  measured->Append(tokens);
  EXPECT_EQ(race.runs(), runs);
  EXPECT_EQ(measured->LibraryKernels(), kernels) << "of this prompt";
  EXPECT_LT(Off(measured->Append(tokens), eager.Append(tokens)), 0.06) << "of the next one, too, but for attention";
  EXPECT_EQ(race.runs(), runs);
}

TEST_P(DecoderByTiles, MeasuresBeforePrompts) {
  constexpr int64_t kBatch = 17;  // enough vectors of the head
  Race race(/*ours=*/false);
  const auto measured = Make(kBatch, 1, race.choice());
  constexpr int64_t kMost = 5;
  measured->Prepare(kBatch, kMost);
  const int64_t runs = race.runs();
  EXPECT_GT(runs, 0);
  for (int64_t tokens = 2; tokens <= kMost; ++tokens) {
    measured->Truncate(0);
    measured->Append(Tokens(kBatch, tokens));
    EXPECT_GT(measured->LibraryKernels(), 0);
    EXPECT_EQ(race.runs(), runs) << tokens;
  }
}

TEST_P(DecoderByTiles, MeasuresOnNoRankOfSeveral) {
  class Ranks final : public ForwardHooks {
  } ranks;
  Race race(/*ours=*/false);
  const auto rank = Make(2, 1, race.choice(), ranks);
  rank->Prepare(2, kTokens);
  rank->Append(Tokens(2, kTokens));
  EXPECT_EQ(race.runs(), 0);
  EXPECT_GT(rank->TileProducts(), 0);
}

TEST(NativeDecoder, MeasuresNothingWithoutTilesOrInFp32) {
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kFp32}) {
    const DecoderWeights weights = WeightsOf({"native", "tiny_llama", format});
    Race race(/*ours=*/false);
    const kernels::TileLinearKernels* const tiles = format == WeightFormat::kFp32 ? kEmulated : nullptr;
    const auto decoder =
        MakeDecoder("fastest", weights, {.capacity = 40, .tiles = tiles, .choice = race.choice()}, 2).value();
    decoder->Prepare(1, 40);
    decoder->Append(at::full({1, 40}, 1, at::kLong));
    EXPECT_EQ(race.runs(), 0) << Name(format);
    EXPECT_EQ(decoder->LibraryKernels(), 0);
  }
}

// A token that eager does not choose is as good as its own to within roundings.
TEST_P(DecoderByTiles, ChoosesTheTokensOfEager) {
  const at::Tensor prompt = Tokens(1, kTokens);
  EagerDecoder eager(weights_, 1, kTokens + kNew);
  const auto tiled = Make(1, 1);
  at::Tensor expected = eager.Append(prompt);
  at::Tensor found = tiled->Append(prompt);
  for (int64_t i = 0; i < kNew; ++i) {
    const at::Tensor next = expected.argmax(-1);
    const at::Tensor chosen = found.argmax(-1);
    const double lost = (expected[0][next[0]] - expected[0][chosen[0]]).item<double>();
    EXPECT_LE(lost, 0.03 * expected.square().mean().sqrt().item<double>()) << i;
    expected = eager.AppendOne(next);
    found = tiled->AppendOne(next);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, DecoderByTiles,
                         testing::Values(Variant{"native", "tiny_llama", WeightFormat::kBf16},
                                         Variant{"native", "tiny_llama", WeightFormat::kBf16, /*has_all=*/true},
                                         Variant{"native", "tiny_mixtral", WeightFormat::kBf16},
                                         Variant{"native", "tiny_llama", WeightFormat::kInt8},
                                         Variant{"native", "tiny_llama", WeightFormat::kInt4}),
                         [](const auto& instance) { return NameOf(instance.param); });

constexpr int64_t kCapacity = 24;
constexpr int64_t kPiece = 4;

class AppendAll : public testing::TestWithParam<Variant> {
 protected:
  std::unique_ptr<DecoderModel> Make(int64_t batch, int64_t piece) {
    return MakeDecoder(GetParam().implementation, weights_, {.batch = batch, .capacity = kCapacity, .piece = piece}, 2)
        .value();
  }

  const at::NoGradGuard no_grad_;
  const DecoderWeights weights_ = PositionalWeightsOf(GetParam());
};

// Pieces of one token, of some, of as many as there is room for, and of more; each is also truncated and read again.
TEST_P(AppendAll, EqualsAppendingOneByOne) {
  at::Generator generator = at::detail::createCPUGenerator(3);
  // A query rotated for another position deviates by 0.4 or more, two roundings by 0.03.
  const bool exact = GetParam().format == WeightFormat::kFp32 && !GetParam().int8_cache;
  const double bound = exact ? 1e-5 : 0.15;
  for (const int64_t batch : {1, 3}) {
    const auto whole = Make(batch, kPiece);
    const auto one_by_one = Make(batch, 1);
    const at::Tensor prompt = at::randint(0, 96, {batch, 5}, generator, at::kLong);
    whole->Append(prompt);
    one_by_one->Append(prompt);
    for (const int64_t tokens : {2, 4, 1, 3, 6}) {
      const at::Tensor piece = at::randint(0, 96, {batch, tokens}, generator, at::kLong);
      const int64_t before = whole->length();
      whole->AppendAll(at::randint(0, 96, {batch, tokens}, generator, at::kLong));
      whole->Truncate(before);
      const at::Tensor found = whole->AppendAll(piece).clone();
      ASSERT_EQ(found.sizes(),
                (std::vector<int64_t>{batch, tokens, static_cast<int64_t>(weights_.config.shape.base.vocab)}));
      for (int64_t i = 0; i < tokens; ++i) {
        const at::Tensor expected = one_by_one->AppendOne(piece.select(1, i).contiguous());
        for (int64_t b = 0; b < batch; ++b) {
          EXPECT_LT(Off(found[b][i], expected[b]), bound) << "token " << i << " of " << tokens << ", sequence " << b;
        }
      }
      EXPECT_EQ(whole->length(), one_by_one->length());
    }
    EXPECT_THROW(whole->AppendAll(at::randint(0, 96, {batch, kPiece}, generator, at::kLong)), c10::Error)
        << "the cache has room for three more";
  }
}

// A reference that attends to the cache of a decoder agrees to the last bits, which decide about whole steps of 8 bits
// otherwise; a code next to the nearest one, and a scale that is a little off, are wrong.
TEST(AnEightBitCache, IsCheckedInItself) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(3);
  for (const char* implementation : {"eager", "native"}) {
    const Variant variant{implementation, "tiny_llama", WeightFormat::kFp32, true, false, /*int8_cache=*/true};
    const DecoderWeights weights = PositionalWeightsOf(variant);
    const at::Tensor tokens = at::randint(0, 96, {2, 24}, generator, at::kLong);
    const auto decoder = MakeDecoder(implementation, weights, {.batch = 2, .capacity = 32}, 1).value();
    const at::Tensor found = Read(*decoder, tokens, 9);
    const KvCache& cache = *decoder->keys_and_values();
    EagerDecoder exact(weights, 2, 24, Arithmetic::kExact, &cache);
    // Our kernel rounds queries and weights to 16 bits.
    EXPECT_LT(Off(found, exact.Append(tokens)), 1e-4) << implementation;
    const auto is_right = [&] { return cache.CheckRounding(exact.cache(), 24, 1e-4).ok(); };
    EXPECT_TRUE(is_right());
    const at::Tensor code = cache.values.select(0, 1)[1][0][20][3];
    code.add_(1);
    EXPECT_FALSE(is_right());
    code.sub_(1);
    EXPECT_TRUE(is_right());
    const at::Tensor scale = cache.key_scales.select(0, 1)[0][1][23];
    scale.mul_(1.05);
    EXPECT_FALSE(is_right());
  }
}

// As in transformers, all tokens of a prompt turn by its length, and each later one by the length up to it.
TEST(PositionsByLength, DependOnTheTokensThatAreReadAtOnce) {
  constexpr int64_t kOriginal = 8;
  constexpr int64_t kPrompt = 11;
  constexpr int64_t kLength = 18;
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(3);
  const at::Tensor tokens = at::randint(0, 96, {1, kLength}, generator, at::kLong);
  for (const char* implementation : {"eager", "native"}) {
    for (const bool int8_cache : {false, true}) {
      DecoderWeights weights =
          PositionalWeightsOf({implementation, "tiny_llama", WeightFormat::kFp32, false, false, int8_cache});
      weights.config.stretched =
          StretchedRope{.method = StretchedRope::Method::kDynamic, .factor = 4, .original_positions = kOriginal};
      const auto make = [&](int64_t batch) {
        return MakeDecoder(implementation, weights, {.batch = batch, .capacity = kLength}, 1).value();
      };
      const auto decoder = make(1);
      const at::Tensor found = Read(*decoder, tokens, kPrompt);
      const KvCache* const cache = int8_cache ? decoder->keys_and_values() : nullptr;
      EagerDecoder reference(weights, 1, kLength, Arithmetic::kExact, cache);
      reference.Append(tokens.narrow(1, 0, kPrompt).contiguous());
      const at::Tensor later = tokens.narrow(1, kPrompt, kLength - kPrompt).contiguous();
      EXPECT_LT(Off(found, reference.AppendOneByOne(later)), 1e-4) << implementation;
      if (int8_cache) continue;
      for (const int64_t other : {int64_t{1}, kPrompt + 1, kLength}) {
        EXPECT_GT(Off(Read(*make(1), tokens, other), found), 1e-3) << implementation << other;
      }
      EXPECT_LT(Off(Read(*make(1), tokens, 1), Read(*make(1), tokens, kOriginal)), 1e-5) << "the plain positions";
      // A ragged batch: each text turns by its own length.
      const auto two = make(2);
      const at::Tensor ragged = at::cat({tokens[0].narrow(0, 0, 2), tokens[0].narrow(0, 0, kPrompt)});
      two->AppendTo({{0, 2}, {1, kPrompt}}, ragged);
      for (int64_t i = kPrompt; i + 1 < kLength; ++i) two->AppendTo({{1, 1}}, tokens[0].narrow(0, i, 1).contiguous());
      const at::Tensor last = at::cat({tokens[0].narrow(0, 2, 1), tokens[0].narrow(0, kLength - 1, 1)});
      EXPECT_LT(Off(two->AppendTo({{0, 1}, {1, 1}}, last)[1], found[0]), 1e-5) << implementation;
    }
  }
}

std::vector<Variant> AppendVariants() {
  const auto formats = {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4};
  std::vector<Variant> variants = Variants(formats);
  for (const char* implementation : {"eager", "native"}) {
    for (const WeightFormat format : formats) {
      variants.push_back({implementation, "tiny_llama", format, /*has_all=*/true, false, /*int8_cache=*/true});
    }
  }
  return variants;
}

INSTANTIATE_TEST_SUITE_P(Each, AppendAll, testing::ValuesIn(AppendVariants()),
                         [](const auto& instance) { return NameOf(instance.param); });

}  // namespace
}  // namespace roofbench::models
