// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
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
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/generation/generation.h"
#include "lib/models/generation/sampling.h"
#include "lib/models/make_decoder.h"
#include "tests/models/decoding/variants.h"

namespace roofbench::models {
namespace {

using testing::Each;
using testing::ElementsAreArray;
using testing::SizeIs;

// The texts of all sequences.
std::vector<TokenIds> Texts(const Generation& generation) {
  std::vector<TokenIds> texts;
  for (int64_t b = 0; b < generation.batch(); ++b) texts.push_back(generation.Ids(b));
  return texts;
}

class GenerationTest : public testing::Test {
 protected:
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
  const DecoderWeights weights_ = WeightsOf({"eager", "tiny_llama", workload::WeightFormat::kFp32});
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
  EXPECT_TRUE(generation.gaps().empty()) << "of a warm-up";
  for (const int64_t measurement : {1, 1, 2}) generation.Run([&] { ++prompts; }, measurement);
  EXPECT_EQ(generation.gaps().size(), 5) << "of the last measurement alone";
  generation.Run([&] { ++prompts; }, 2);
  EXPECT_EQ(generation.gaps().size(), 10);
  EXPECT_EQ(prompts, 6);
}

TEST_F(GenerationTest, SamplesOnRequest) {
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
TEST_F(GenerationTest, ReadsTheChosenTokens) {
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

TEST(DeviceTokenChooser, ReportsNonFiniteLogits) {
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
TEST_P(BrokenWeights, FailTheGeneration) {
  const auto [implementation, model, value] = GetParam();
  const at::NoGradGuard no_grad;
  DecoderWeights weights = WeightsOf({implementation, model, workload::WeightFormat::kFp32});
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

TEST(RecordedDecoder, ReplaysTheRecording) {
  const at::NoGradGuard no_grad;
  const DecoderWeights weights = WeightsOf({"eager", "tiny_llama", workload::WeightFormat::kFp32});
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

using testing::ElementsAre;

constexpr int64_t kVocab = 1000;

// For a text it returns the last token plus the number of tokens before it, so that the next token depends on the whole
// position; it also records how many tokens each sequence gets.
class PlaceDecoder final : public DecoderModel {
 public:
  explicit PlaceDecoder(int64_t batch) : lengths_(static_cast<std::size_t>(batch)) {}

  const at::Tensor& Append(const at::Tensor& tokens) override {
    std::vector<Piece> pieces;
    for (int64_t b = 0; b < tokens.size(0); ++b) pieces.push_back({b, tokens.size(1)});
    return AppendTo(pieces, tokens.reshape({-1}));
  }
  const at::Tensor& AppendOne(const at::Tensor& tokens) override { return Append(tokens.unsqueeze(1)); }
  const at::Tensor& AppendTo(const std::vector<Piece>& pieces, const at::Tensor& tokens) override {
    logits_ = at::zeros({static_cast<int64_t>(pieces.size()), kVocab}, at::kFloat);
    int64_t end = 0;
    int64_t row = 0;
    for (const auto& [sequence, count] : pieces) {
      int64_t& length = lengths_[static_cast<std::size_t>(sequence)];
      length += count;
      appended.push_back({sequence, count});
      const int64_t last = tokens[(end += count) - 1].item<int64_t>();
      logits_[row++][(last + length) % kVocab] = static_cast<float>(last);
    }
    EXPECT_EQ(end, tokens.numel());
    return logits_;
  }
  at::Tensor AppendAll(const at::Tensor& /*tokens*/) override { return {}; }
  int64_t length() const override { return lengths_.front(); }
  void Truncate(int64_t length) override {
    std::ranges::fill(lengths_, length);
    appended.clear();
  }
  void Reorder(const std::vector<int64_t>& /*from*/) override {}
  void FillRandom(int64_t /*length*/, uint64_t /*seed*/) override {}
  void ObserveComponents(ComponentMarker /*marker*/) override {}
  void ObserveStages(Int8Marker /*marker*/) override {}

  std::vector<std::pair<int64_t, int64_t>> appended;  // sequence and tokens, since it was truncated

 private:
  std::vector<int64_t> lengths_;
  at::Tensor logits_;
};

Generation::Options Ragged(TokenIds stop_ids, int64_t most_new) {
  // Prompts of 3, 1 and 2 tokens.
  return {.prompt = at::tensor({10, 11, 12, 50, 90, 91}, at::kLong),
          .lengths = {3, 1, 2},
          .most_new = most_new,
          .stop_ids = std::move(stop_ids)};
}

class RaggedGeneration : public testing::Test {
 protected:
  // Runs it twice: the second run must not depend on the first.
  Generation& Go(Generation::Options options, int64_t batch = 3) {
    auto decoder = std::make_unique<PlaceDecoder>(batch);
    decoder_ = decoder.get();
    generation_ = std::make_unique<Generation>(std::move(decoder), kVocab, std::move(options));
    for (int i = 0; i < 2; ++i) generation_->Run([] {});
    return *generation_;
  }
  // Tokens that went through the decoder, of a sequence.
  int64_t AppendedTo(int64_t sequence) const {
    int64_t tokens = 0;
    for (const auto& [one, count] : decoder_->appended) tokens += one == sequence ? count : 0;
    return tokens;
  }

  const at::NoGradGuard no_grad_;
  PlaceDecoder* decoder_ = nullptr;
  std::unique_ptr<Generation> generation_;
};

TEST_F(RaggedGeneration, EachTextContinuesFromItsOwnLength) {
  const Generation& all = Go(Ragged({}, 4));
  EXPECT_THAT(all.Ids(0), ElementsAre(12 + 3, 15 + 4, 19 + 5, 24 + 6));
  EXPECT_THAT(all.Ids(1), ElementsAre(50 + 1, 51 + 2, 53 + 3, 56 + 4));
  EXPECT_THAT(all.Ids(2), ElementsAre(91 + 2, 93 + 3, 96 + 4, 100 + 5));
  EXPECT_THAT(all.made(), ElementsAre(4, 4, 4));
  EXPECT_EQ(all.steps(), 4);
  for (int64_t b = 0; b < 3; ++b) EXPECT_FALSE(all.HasStopped(b));
}

// The first ends with its second token, the last with its third.
TEST_F(RaggedGeneration, EndedTextsTakeNoPart) {
  const Generation& some = Go(Ragged({19, 100}, 5));
  EXPECT_THAT(some.Ids(0), ElementsAre(15, 19));
  EXPECT_THAT(some.Ids(1), ElementsAre(51, 53, 56, 60, 65));
  EXPECT_THAT(some.Ids(2), ElementsAre(93, 96, 100));
  EXPECT_THAT(some.made(), ElementsAre(2, 5, 3));
  EXPECT_TRUE(some.HasStopped(0));
  EXPECT_FALSE(some.HasStopped(1));
  EXPECT_TRUE(some.HasStopped(2));
  // Its prompt and every token but the last, without padding.
  for (int64_t b = 0; b < 3; ++b) {
    EXPECT_EQ(AppendedTo(b),
              some.lengths()[static_cast<std::size_t>(b)] + some.made()[static_cast<std::size_t>(b)] - 1);
  }
  // The logits of each one's last token.
  for (int64_t b = 0; b < 3; ++b) EXPECT_EQ(some.logits()[b].argmax().item<int64_t>(), some.Ids(b).back()) << b;
  const std::vector<at::Tensor> read = some.Read();
  ASSERT_EQ(read.size(), 3);
  EXPECT_TRUE(read[0].equal(at::tensor({10, 11, 12, 15}, at::kLong).unsqueeze(0)));
  EXPECT_TRUE(read[1].equal(at::tensor({50, 51, 53, 56, 60}, at::kLong).unsqueeze(0)));
  EXPECT_TRUE(read[2].equal(at::tensor({90, 91, 93, 96}, at::kLong).unsqueeze(0)));
}

TEST_F(RaggedGeneration, TextsMayEndAtTheLastStep) {
  const Generation& last = Go(Ragged({19, 56}, 3));
  EXPECT_THAT(last.made(), ElementsAre(2, 3, 3));
  EXPECT_TRUE(last.HasStopped(1));
  for (int64_t b = 0; b < 3; ++b) EXPECT_EQ(last.logits()[b].argmax().item<int64_t>(), last.Ids(b).back()) << b;
  const Generation& early = Go(Ragged({15, 51, 93}, 9));
  EXPECT_THAT(early.made(), ElementsAre(1, 1, 1)) << "all at once, before the first step";
  EXPECT_EQ(early.steps(), 1);
}

TEST_F(RaggedGeneration, SequencesOfOneLengthEndSeparately) {
  const Generation& even =
      Go({.prompt = at::tensor({10, 11, 50, 51}, at::kLong).view({2, 2}), .most_new = 4, .stop_ids = {13}}, 2);
  EXPECT_THAT(even.Ids(0), ElementsAre(13));
  EXPECT_THAT(even.Ids(1), ElementsAre(53, 56, 60, 65));
  EXPECT_EQ(AppendedTo(0), 2);
  EXPECT_EQ(AppendedTo(1), 2 + 3);
  ASSERT_EQ(even.Read().size(), 2);
}

TEST_F(RaggedGeneration, DrawsFollowTheirSequence) {
  Generation::Options options = Ragged({19}, 4);
  options.sampling = SamplingOptions{.top_k = 1, .repetition_penalty = 1};
  const Generation& drawn = Go(std::move(options));
  EXPECT_THAT(drawn.Ids(0), ElementsAre(15, 19));
  EXPECT_THAT(drawn.Ids(1), ElementsAre(51, 53, 56, 60));
  EXPECT_THAT(drawn.Ids(2), ElementsAre(93, 96, 100, 105));
}

// A device draws for each sequence independently of the others in the batch.
TEST(DeviceTokenChooser, ChoosesTheSameForSomeSequencesAsForAll) {
  DeviceTokenChooser device({.top_k = 50, .temperature = 5, .seed = 5}, 20, 4, at::kCPU);
  const at::Tensor logits = at::arange(200, at::kFloat).view({4, 50});
  const at::Tensor sequences = at::tensor({0, 3}, at::kLong);
  const at::Tensor all = at::zeros({4}, at::kLong);
  const at::Tensor some = at::zeros({2}, at::kLong);
  for (int64_t i = 0; i < 20; ++i) {
    device.Choose(logits, i, all);
    device.Choose(logits.index_select(0, sequences), i, some, sequences);
    EXPECT_TRUE(some.equal(all.index_select(0, sequences))) << i;
  }
}

}  // namespace
}  // namespace roofbench::models
