// SPDX-License-Identifier: Apache-2.0
// Each of several ragged sequences has the same result as alone, and excluded sequences cost nothing.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/make_decoder.h"
#include "tests/models/decoding/variants.h"

namespace roofbench::models {
namespace {

using workload::WeightFormat;

constexpr int64_t kBatch = 4;
constexpr int64_t kCapacity = 24;

DecoderWeights TinyWeights(WeightFormat format) { return PositionalWeightsOf({"eager", "tiny_llama", format}); }

// The input of one call: tokens of some sequences, [n] each.
using Call = std::vector<std::pair<int64_t, at::Tensor>>;

at::Tensor Append(DecoderModel& decoder, const Call& call) {
  std::vector<Piece> pieces;
  std::vector<at::Tensor> tokens;
  for (const auto& [sequence, own] : call) {
    pieces.push_back({sequence, own.numel()});
    tokens.push_back(own);
  }
  return decoder.AppendTo(pieces, at::cat(tokens)).clone();
}

// Prompts of 3, 9, 1 and 5 tokens; a token of all; of some, as if others had ended; and further pieces.
std::vector<Call> Calls() {
  at::Generator generator = at::detail::createCPUGenerator(3);
  const auto tokens = [&](int64_t n) { return at::randint(0, 96, {n}, generator, at::kLong); };
  std::vector<Call> calls = {{{0, tokens(3)}, {1, tokens(9)}, {2, tokens(1)}, {3, tokens(5)}}};
  const std::vector<std::vector<int64_t>> steps = {{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 2, 3}, {2, 3}, {0, 1}, {3}};
  for (const std::vector<int64_t>& sequences : steps) {
    Call& call = calls.emplace_back();
    for (const int64_t sequence : sequences) call.emplace_back(sequence, tokens(1));
  }
  calls.push_back({{1, tokens(1)}, {2, tokens(7)}, {3, tokens(2)}});
  return calls;
}

class RaggedSequences : public testing::TestWithParam<Variant> {
 protected:
  std::unique_ptr<DecoderModel> Make(int64_t batch) {
    return MakeDecoder(GetParam().implementation, weights_, {.batch = batch, .capacity = kCapacity}, 2).value();
  }

  const at::NoGradGuard no_grad_;
  const DecoderWeights weights_ = PositionalWeightsOf(GetParam());
};

TEST_P(RaggedSequences, MatchSingleSequences) {
  const auto batch = Make(kBatch);
  std::vector<std::unique_ptr<DecoderModel>> alone;
  for (int64_t b = 0; b < kBatch; ++b) alone.push_back(Make(1));
  // A query rotated for another position is off by 0.46 or more in the worst call, two roundings by 0.03.
  const double bound = GetParam().format == WeightFormat::kFp32 ? 1e-5 : 0.15;
  // Twice: the first round must not leave state.
  for (int round = 0; round < 2; ++round) {
    batch->Truncate(0);
    for (const auto& one : alone) one->Truncate(0);
    int64_t number = 0;
    for (const Call& call : Calls()) {
      const at::Tensor together = Append(*batch, call);
      ASSERT_EQ(together.size(0), static_cast<int64_t>(call.size()));
      for (int64_t i = 0; i < together.size(0); ++i) {
        const auto& [sequence, tokens] = call[static_cast<std::size_t>(i)];
        const at::Tensor expected = alone[static_cast<std::size_t>(sequence)]->Append(tokens.unsqueeze(0))[0];
        EXPECT_LT(Off(together[i], expected), bound) << "sequence " << sequence << " of call " << number;
      }
      ++number;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, RaggedSequences,
                         testing::ValuesIn(Variants({WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8,
                                                     WeightFormat::kInt4, WeightFormat::kLlmInt8})),
                         [](const auto& instance) { return NameOf(instance.param); });

// Counts the rows of products, one for each token.
TEST(RaggedSequencesWork, IsProportionalToTheAppendedTokens) {
  const at::NoGradGuard no_grad;
  DecoderWeights weights = TinyWeights(WeightFormat::kInt8);
  EagerDecoder decoder(weights, kBatch, kCapacity);
  int64_t rows = 0;
  int64_t products = 0;
  decoder.MultiplyInt8By([&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale) {
    rows += x.size(0);
    ++products;
    return at::linear(x, weight.to(x.scalar_type()).mul(scale.unsqueeze(1).to(x.scalar_type())));
  });
  for (const Call& call : Calls()) {
    rows = products = 0;
    int64_t tokens = 0;
    for (const auto& [sequence, own] : call) tokens += own.numel();
    Append(decoder, call);
    // All tokens go through the layers, the last of each sequence through the head.
    EXPECT_EQ(rows, (products - 1) * tokens + static_cast<int64_t>(call.size()));
  }
}

// The cache of the other sequences, here NaN, is neither read nor changed.
TEST(RaggedSequencesWork, LeavesTheOthersAlone) {
  const at::NoGradGuard no_grad;
  const DecoderWeights weights = TinyWeights(WeightFormat::kFp32);
  EagerDecoder decoder(weights, 3, kCapacity);
  for (at::Tensor* cache : {&decoder.cache().keys, &decoder.cache().values}) {
    cache->fill_(std::numeric_limits<float>::quiet_NaN());
  }
  const at::Tensor tokens = at::tensor({3, 4, 5}, at::kLong);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Append(decoder, {{0, tokens}, {2, tokens}}).isfinite().all().item<bool>());
  }
  EXPECT_TRUE(decoder.cache().keys.select(1, 1).isnan().all().item<bool>());
  EXPECT_THAT(decoder.cache().lengths, testing::ElementsAre(6, 0, 6));
  EXPECT_THROW(decoder.length(), c10::Error) << "the lengths differ";
  EXPECT_THROW(decoder.AppendOne(tokens), c10::Error) << "the lengths differ";
}

TEST(RaggedSequencesWork, RefusesInvalidPieces) {
  const at::NoGradGuard no_grad;
  const DecoderWeights weights = TinyWeights(WeightFormat::kFp32);
  for (const char* implementation : {"eager", "native"}) {
    const auto decoder = MakeDecoder(implementation, weights, {.batch = 2, .capacity = 4}, 1).value();
    const at::Tensor two = at::tensor({1, 2}, at::kLong);
    for (const std::vector<Piece>& pieces : std::vector<std::vector<Piece>>{{},
                                                                            {{0, 1}},
                                                                            {{0, 1}, {1, 2}},
                                                                            {{1, 1}, {0, 1}},
                                                                            {{0, 1}, {0, 1}},
                                                                            {{2, 2}},
                                                                            {{-1, 2}},
                                                                            {{0, 2}, {1, 0}}}) {
      EXPECT_THROW(decoder->AppendTo(pieces, two), c10::Error)
          << implementation << testing::PrintToString(pieces.size());
    }
    for (int i = 0; i < 2; ++i) decoder->AppendTo({{1, 2}}, two);
    EXPECT_THROW(decoder->AppendTo({{1, 2}}, two), c10::Error) << "the cache holds four";
    EXPECT_THROW(decoder->AppendTo({{0, 1}, {1, 1}}, two), c10::Error);
    EXPECT_NO_THROW(decoder->AppendTo({{0, 2}}, two));
  }
}

TEST(RaggedSequencesWork, IsNotRecorded) {
  const at::NoGradGuard no_grad;
  const DecoderWeights weights = TinyWeights(WeightFormat::kFp32);
  RecordedDecoder recorded(weights, kBatch, kCapacity, [](const std::function<void()>&) { return [] {}; });
  EagerDecoder eager(weights, kBatch, kCapacity);
  for (const Call& call : Calls()) EXPECT_TRUE(Append(recorded, call).equal(Append(eager, call)));
}

}  // namespace
}  // namespace roofbench::models
