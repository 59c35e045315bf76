// SPDX-License-Identifier: Apache-2.0
// tests/oracles/test_completions.py compares whole searches with transformers.

#include "lib/models/generation/beam_search.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/models/decoding/kv_cache.h"
#include "lib/workload/models/decoder.h"

namespace roofbench::models {
namespace {

using testing::ElementsAre;

constexpr int64_t kVocab = 8;
constexpr int64_t kStop = 7;

// Logits of rows with some probabilities; the other tokens share the rest of each row.
using Row = std::vector<std::pair<int64_t, double>>;
at::Tensor LogitsOf(const std::vector<Row>& rows) {
  at::Tensor logits = at::full({static_cast<int64_t>(rows.size()), kVocab}, 0, at::kFloat);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double left = 1;
    for (const auto& [token, probability] : rows[i]) left -= probability;
    const double other = left / static_cast<double>(kVocab - static_cast<int64_t>(rows[i].size()));
    logits[static_cast<int64_t>(i)].fill_(std::log(other));
    for (const auto& [token, probability] : rows[i]) logits[static_cast<int64_t>(i)][token] = std::log(probability);
  }
  return logits;
}

BeamSearch TwoBeams(int64_t most_new, double length_penalty = 1) {
  return {{.beams = 2, .length_penalty = length_penalty}, kVocab, most_new, {kStop}};
}

// 0.6 · 0.2 for the token that leads at first, 0.3 · 0.9 for the other.
TEST(BeamSearch, FindsATextThatStartsWorse) {
  BeamSearch search = TwoBeams(2);
  for (int run = 0; run < 2; ++run) {
    search.Restart();
    // In the first step the second row repeats the same prompt.
    ASSERT_TRUE(search.Advance(LogitsOf({{{3, 0.6}, {1, 0.3}}, {{3, 0.6}, {1, 0.3}}})));
    EXPECT_THAT(search.tokens(), ElementsAre(3, 1));
    EXPECT_THAT(search.parents(), ElementsAre(0, 0));
    const at::Tensor second = LogitsOf({{{0, 0.2}, {2, 0.15}}, {{5, 0.9}}});
    EXPECT_FALSE(search.Advance(second)) << "no token is left";
    EXPECT_THAT(search.Best(), ElementsAre(1, 5));
    EXPECT_TRUE(search.BestLogits().equal(second[1]));
    EXPECT_EQ(search.steps(), 2);
  }
}

// ln 0.5 = -0.69 a token for the short text; ln 0.4 + ln 0.9 + ln 0.9 = -1.13, or -0.38 a token, for the long one.
TEST(BeamSearch, TextsThatEndCompeteByTheirLength) {
  for (const auto& [penalty, best] : std::vector<std::pair<double, TokenIds>>{{0, {kStop}}, {1, {2, 4, 6}}}) {
    BeamSearch search = TwoBeams(3, penalty);
    bool continues = search.Advance(LogitsOf({{{kStop, 0.5}, {2, 0.4}}, {}}));
    ASSERT_TRUE(continues);
    EXPECT_EQ(search.tokens().front(), 2);
    for (const int64_t token : {4, 6}) {
      if (continues) continues = search.Advance(LogitsOf({{{token, 0.9}}, {}}));
    }
    EXPECT_EQ(search.Best(), best) << penalty;
  }
}

// With as many ended texts as beams, and better than any running text can become.
TEST(BeamSearch, EndsOnceNothingCanBeatTheFinishedTexts) {
  BeamSearch search = TwoBeams(100, 0);
  ASSERT_TRUE(search.Advance(LogitsOf({{{kStop, 0.5}, {2, 0.4}}, {}})));
  EXPECT_FALSE(search.Advance(LogitsOf({{{kStop, 0.9}}, {}}))) << "0.5 and 0.36 have ended, and 0.4 · 0.1 is left";
  EXPECT_THAT(search.Best(), ElementsAre(kStop));
}

// Two texts have ended with 0.3 and 0.2 · 0.4, and the running one has 0.2 · 0.3: it could not beat them now, but with
// a penalty at the length of 9.
TEST(BeamSearch, EarlyStoppingDecidesWhetherARunningTextMayStillWin) {
  for (const auto& [early, penalty, continues] :
       std::vector<std::tuple<EarlyStopping, double, bool>>{{EarlyStopping::kFalse, 1, false},
                                                            {EarlyStopping::kTrue, 1, false},
                                                            {EarlyStopping::kNever, 1, true},
                                                            {EarlyStopping::kNever, -1, false}}) {
    BeamSearch search({.beams = 2, .length_penalty = penalty, .early_stopping = early}, kVocab, 9, {kStop});
    ASSERT_TRUE(search.Advance(LogitsOf({{{kStop, 0.3}, {2, 0.2}}, {}})));
    EXPECT_EQ(search.Advance(LogitsOf({{{kStop, 0.4}, {3, 0.3}}, {}})), continues) << penalty;
  }
  // 0.3 and 0.25 · 0.1 have ended, and 0.25 · 0.8 could still win.
  for (const auto& [early, continues] : {std::pair{EarlyStopping::kFalse, true}, {EarlyStopping::kTrue, false}}) {
    BeamSearch search({.beams = 2, .early_stopping = early}, kVocab, 9, {kStop});
    ASSERT_TRUE(search.Advance(LogitsOf({{{kStop, 0.3}, {2, 0.25}}, {}})));
    EXPECT_EQ(search.Advance(LogitsOf({{{3, 0.8}, {kStop, 0.1}}, {}})), continues);
  }
}

TEST(BeamSearch, RefusesNan) {
  BeamSearch search = TwoBeams(3);
  at::Tensor logits = LogitsOf({{}, {}});
  logits[1][3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(search.Advance(logits), c10::Error);
  EXPECT_THROW(BeamSearch({.beams = 5}, kVocab, 3, {}), c10::Error) << "ten continuations of eight tokens";
}

TEST(KvCache, ReordersSequences) {
  const workload::Transformer shape = workload::FindDecoderPreset("tiny_llama")->shape.base;
  at::Generator generator = at::detail::createCPUGenerator(5);
  for (const bool in_8_bits : {false, true}) {
    KvCache cache(shape, 3, 6, at::TensorOptions(at::kFloat), in_8_bits);
    cache.SetLength(4);
    const KvCache::Part all{.layer = 1, .sequences = 3, .tokens = 4};
    const auto heads = static_cast<int64_t>(shape.KvHeads());
    const auto dim = static_cast<int64_t>(shape.HeadDim());
    // Distinct sizes, so that a factor that is not moved shows.
    const at::Tensor sizes = at::randn({3, heads, 4, 1}, generator).exp();
    cache.Write(all, at::randn({3, heads, 4, dim}, generator) * sizes,
                at::randn({3, heads, 4, dim}, generator) / sizes);
    const auto [keys, values] = cache.Read(all);
    const at::Tensor k = keys.clone();
    const at::Tensor v = values.clone();
    cache.Reorder({1, 1, 0});
    const auto [new_keys, new_values] = cache.Read(all);
    for (const auto& [to, from] : {std::pair{0, 1}, {1, 1}, {2, 0}}) {
      EXPECT_TRUE(new_keys[to].equal(k[from])) << to;
      EXPECT_TRUE(new_values[to].equal(v[from])) << to;
    }
  }
}

}  // namespace
}  // namespace roofbench::models
