// SPDX-License-Identifier: Apache-2.0
// Prompts of their own lengths are gone on with side by side: each as alone, to its own end, and for no more work.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lib/models/generation/generation.h"
#include "lib/models/sampling/token_choice.h"

namespace roofbench::models {
namespace {

using testing::ElementsAre;

constexpr int64_t kVocab = 1000;

// Of a text it says the last token plus the number of tokens before it, so that the next one tells of the whole place;
// and it counts what it is given.
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
  void ObserveStages(LlmInt8Marker /*marker*/) override {}

  std::vector<std::pair<int64_t, int64_t>> appended;  // sequence and tokens, since it was truncated

 private:
  std::vector<int64_t> lengths_;
  at::Tensor logits_;
};

Generation::Options Uneven(TokenIds stop_ids, int64_t most_new) {
  // Prompts of 3, 1 and 2 tokens.
  return {.prompt = at::tensor({10, 11, 12, 50, 90, 91}, at::kLong),
          .lengths = {3, 1, 2},
          .most_new = most_new,
          .stop_ids = std::move(stop_ids)};
}

class UnevenGeneration : public testing::Test {
 protected:
  // Runs it twice: nothing is left of the first time.
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

TEST_F(UnevenGeneration, EachTextGoesOnFromItsOwnPlace) {
  const Generation& all = Go(Uneven({}, 4));
  EXPECT_THAT(all.Ids(0), ElementsAre(12 + 3, 15 + 4, 19 + 5, 24 + 6));
  EXPECT_THAT(all.Ids(1), ElementsAre(50 + 1, 51 + 2, 53 + 3, 56 + 4));
  EXPECT_THAT(all.Ids(2), ElementsAre(91 + 2, 93 + 3, 96 + 4, 100 + 5));
  EXPECT_THAT(all.made(), ElementsAre(4, 4, 4));
  EXPECT_EQ(all.steps(), 4);
  for (int64_t b = 0; b < 3; ++b) EXPECT_FALSE(all.HasStopped(b));
}

// The first ends with its second token, the last with its third.
TEST_F(UnevenGeneration, ATextThatHasEndedIsNotGoneOnWith) {
  const Generation& some = Go(Uneven({19, 100}, 5));
  EXPECT_THAT(some.Ids(0), ElementsAre(15, 19));
  EXPECT_THAT(some.Ids(1), ElementsAre(51, 53, 56, 60, 65));
  EXPECT_THAT(some.Ids(2), ElementsAre(93, 96, 100));
  EXPECT_THAT(some.made(), ElementsAre(2, 5, 3));
  EXPECT_TRUE(some.HasStopped(0));
  EXPECT_FALSE(some.HasStopped(1));
  EXPECT_TRUE(some.HasStopped(2));
  // Its prompt and every token but the last: not one more, and no padding.
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

TEST_F(UnevenGeneration, EndsAtTheLastStepAreEnds) {
  const Generation& last = Go(Uneven({19, 56}, 3));
  EXPECT_THAT(last.made(), ElementsAre(2, 3, 3));
  EXPECT_TRUE(last.HasStopped(1));
  for (int64_t b = 0; b < 3; ++b) EXPECT_EQ(last.logits()[b].argmax().item<int64_t>(), last.Ids(b).back()) << b;
  const Generation& early = Go(Uneven({15, 51, 93}, 9));
  EXPECT_THAT(early.made(), ElementsAre(1, 1, 1)) << "all at once, before the first step";
  EXPECT_EQ(early.steps(), 1);
}

TEST_F(UnevenGeneration, SequencesOfOneLengthEndOnTheirOwnToo) {
  const Generation& even =
      Go({.prompt = at::tensor({10, 11, 50, 51}, at::kLong).view({2, 2}), .most_new = 4, .stop_ids = {13}}, 2);
  EXPECT_THAT(even.Ids(0), ElementsAre(13));
  EXPECT_THAT(even.Ids(1), ElementsAre(53, 56, 60, 65));
  EXPECT_EQ(AppendedTo(0), 2);
  EXPECT_EQ(AppendedTo(1), 2 + 3);
  ASSERT_EQ(even.Read().size(), 2);
}

TEST_F(UnevenGeneration, DrawsAreOfTheSequenceTheyAreFor) {
  Generation::Options options = Uneven({19}, 4);
  options.sampling = SamplingOptions{.top_k = 1, .repetition_penalty = 1};
  const Generation& drawn = Go(std::move(options));
  EXPECT_THAT(drawn.Ids(0), ElementsAre(15, 19));
  EXPECT_THAT(drawn.Ids(1), ElementsAre(51, 53, 56, 60));
  EXPECT_THAT(drawn.Ids(2), ElementsAre(93, 96, 100, 105));
}

// What a device draws for a sequence is drawn for that one, whoever takes part.
TEST(DeviceTokenChooser, ChoosesForSomeSequencesWhatItWouldForAll) {
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
