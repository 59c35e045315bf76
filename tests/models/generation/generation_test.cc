// SPDX-License-Identifier: Apache-2.0
#include "lib/models/generation/generation.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/decoding/recorded_decoder.h"
#include "lib/workload/models/decoder.h"

namespace roofbench::models {
namespace {

using testing::Each;
using testing::ElementsAreArray;
using testing::SizeIs;

// Of each sequence.
std::vector<TokenIds> Texts(const Generation& generation) {
  std::vector<TokenIds> texts;
  for (int64_t b = 0; b < generation.batch(); ++b) texts.push_back(generation.Ids(b));
  return texts;
}

class GenerationTest : public testing::Test {
 protected:
  GenerationTest()
      : weights_(RandomWeights(ConfigOf(*workload::FindDecoderPreset("tiny_llama")),
                               Storage::Default(workload::WeightFormat::kFp32), 1)
                     .value()) {}

  Generation Make(int64_t batch, const TokenIds& stop_ids = {}, const ChoiceOptions& choice = {},
                  const std::optional<SamplingOptions>& sampling = {}) {
    at::Generator seeded = at::detail::createCPUGenerator(3);
    const auto vocab = static_cast<int64_t>(weights_.config.shape.base.vocab);
    return {std::make_unique<EagerDecoder>(weights_, batch, 16),
            vocab,
            {.prompt = at::randint(0, vocab, {batch, 5}, seeded, at::kLong),
             .most_new = 6,
             .stop_ids = stop_ids,
             .choice = choice,
             .sampling = sampling}};
  }

  const at::NoGradGuard no_grad_;
  DecoderWeights weights_;
};

TEST_F(GenerationTest, RunsAgainWithTheSameDraws) {
  Generation generation = Make(2, {}, {.top_k = 20, .temperature = 0.8, .seed = 1});
  EXPECT_EQ(generation.Read().front().size(1), 5);
  int prompts = 0;
  generation.Run([&] { ++prompts; });
  const std::vector<TokenIds> first = Texts(generation);
  EXPECT_THAT(first, Each(SizeIs(6)));
  EXPECT_TRUE(generation.gaps().empty());
  EXPECT_GT(generation.first_seconds(), 0);
  generation.Run([&] { ++prompts; });
  EXPECT_EQ(Texts(generation), first);
  EXPECT_EQ(generation.gaps().size(), 5);
  EXPECT_EQ(prompts, 2);
}

TEST_F(GenerationTest, SamplesInsteadWhereItIsTold) {
  const auto ids = [&](const std::optional<SamplingOptions>& sampling) {
    Generation generation = Make(2, {}, {}, sampling);
    generation.Run([] {});
    const std::vector<TokenIds> first = Texts(generation);
    generation.Run([] {});
    EXPECT_EQ(Texts(generation), first) << "the same draws";
    return first;
  };
  const std::vector<TokenIds> likeliest = ids(std::nullopt);
  EXPECT_EQ(ids(SamplingOptions{.top_k = 1}), likeliest);
  EXPECT_NE(ids(SamplingOptions{.temperature = 100}), likeliest);
}

// Each token is the likeliest after those before it.
TEST_F(GenerationTest, ReadsWhatItChose) {
  Generation generation = Make(1);
  generation.Run([] {});
  const TokenIds chosen = generation.Ids(0);
  const at::Tensor read = generation.Read().front();
  ASSERT_EQ(read.size(1), 10);  // the last token's logits were not asked for
  EagerDecoder whole(weights_, 1, 16);
  const at::Tensor logits = whole.Append(read);
  EXPECT_EQ(logits.argmax().item<int64_t>(), chosen.back());
  EXPECT_EQ(generation.logits().argmax().item<int64_t>(), chosen.back());
}

TEST_F(GenerationTest, EndsWithAStopId) {
  Generation free = Make(1);
  free.Run([] {});
  const TokenIds chosen = free.Ids(0);
  Generation stopped = Make(1, {chosen[2]});
  stopped.Run([] {});
  const auto first = std::find(chosen.begin(), chosen.end(), chosen[2]);
  EXPECT_THAT(stopped.Ids(0), ElementsAreArray(chosen.begin(), first + 1));
}

// By the same logits as the chooser of the host, for a device: the CPU is one.
TEST(DeviceTokenChooser, ChoosesTheTokensOfTheHost) {
  constexpr int64_t kVocab = 300;
  constexpr int64_t kBatch = 3;
  constexpr int64_t kMost = 40;
  for (const int64_t top_k : {1, 20, 1000}) {
    const ChoiceOptions options = {.top_k = top_k, .temperature = 0.8, .seed = 5};
    TokenChooser host(options, kVocab);
    DeviceTokenChooser device(options, kMost, kBatch, at::kCPU);
    at::Generator seeded = at::detail::createCPUGenerator(3);
    const at::Tensor ids = at::zeros({kBatch}, at::kLong);
    for (int64_t i = 0; i < kMost; ++i) {
      const at::Tensor logits = at::randn({kBatch, kVocab}, seeded).mul_(3);
      device.Choose(logits, i, ids);
      for (int64_t b = 0; b < kBatch; ++b) {
        EXPECT_EQ(ids[b].item<int64_t>(), host.Choose(logits[b].const_data_ptr<float>())) << top_k << " " << i;
      }
    }
    device.Check(kMost);
  }
}

TEST(DeviceTokenChooser, TellsOfLogitsThatAreNoNumbers) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    DeviceTokenChooser device({}, 3, 1, at::kCPU);
    const at::Tensor ids = at::zeros({1}, at::kLong);
    for (int64_t i = 0; i < 3; ++i) device.Choose(i == 1 ? at::full({1, 8}, value) : at::ones({1, 8}), i, ids);
    EXPECT_NO_THROW(device.Check(1));
    EXPECT_THROW(device.Check(3), c10::Error);
  }
}

class BrokenWeights : public testing::TestWithParam<std::tuple<const char*, const char*, float>> {};

// Numbers that a router or a choice of tokens cannot order, in two sequences at once.
TEST_P(BrokenWeights, EndTheGenerationInOrder) {
  const auto [implementation, model, value] = GetParam();
  const at::NoGradGuard no_grad;
  DecoderWeights weights =
      RandomWeights(ConfigOf(*workload::FindDecoderPreset(model)), Storage::Default(workload::WeightFormat::kFp32), 1)
          .value();
  for (LayerWeights& layer : weights.layers) {
    (layer.router.weight.defined() ? layer.router.weight : layer.gate_up.weight).fill_(value);
  }
  for (const int64_t top_k : {1, 20}) {
    Generation generation(MakeDecoder(implementation, weights, {.batch = 2, .capacity = 16}, 2).value(), 96,
                          {.prompt = at::zeros({2, 1}, at::kLong), .most_new = 4, .choice = {.top_k = top_k}});
    EXPECT_THROW(generation.Run([] {}), c10::Error);
  }
  // The prompt is LibTorch's; the tokens after it are each implementation's own.
  const auto decoder = MakeDecoder(implementation, weights, {.batch = 2, .capacity = 16}, 2).value();
  const at::Tensor tokens = at::tensor({3, 5}, at::kLong);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(decoder->AppendOne(tokens).isfinite().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(
    Each, BrokenWeights,
    testing::Combine(testing::Values("eager", "native"), testing::Values("tiny_llama", "tiny_mixtral"),
                     testing::Values(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity())));

TEST(RecordedDecoder, RepeatsWhatItRecorded) {
  const at::NoGradGuard no_grad;
  const DecoderWeights weights = RandomWeights(ConfigOf(*workload::FindDecoderPreset("tiny_llama")),
                                               Storage::Default(workload::WeightFormat::kFp32), 1)
                                     .value();
  int records = 0;
  int replays = 0;
  RecordedDecoder recorded(weights, 1, 8, [&](const std::function<void()>& launches) {
    ++records;
    launches();
    return [&replays] { ++replays; };
  });
  EagerDecoder eager(weights, 1, 8);
  at::Generator seeded = at::detail::createCPUGenerator(3);
  const at::Tensor prompt = at::randint(0, 96, {1, 3}, seeded, at::kLong);
  recorded.Append(prompt);
  eager.Append(prompt);
  const at::Tensor token = at::tensor({17}, at::kLong);
  const at::Tensor expected = eager.AppendOne(token).clone();
  EXPECT_TRUE(at::allclose(recorded.AppendOne(token), expected, 1e-4, 1e-5));
  EXPECT_EQ(recorded.length(), 4);
  recorded.AppendOne(token);
  EXPECT_EQ(recorded.length(), 5);
  EXPECT_EQ(replays, 2);
  EXPECT_EQ(records, 1);
}

}  // namespace
}  // namespace roofbench::models
