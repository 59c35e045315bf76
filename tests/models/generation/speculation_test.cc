// SPDX-License-Identifier: Apache-2.0
// A text with a draft is the model's own, for any guesses of the draft, and the reads for it are counted.

#include "lib/models/generation/speculation.h"
#include "lib/models/make_decoder.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "lib/models/generation/generation.h"
#include "lib/workload/models/decoder.h"

namespace roofbench::workload {

bool operator==(const DecoderPass& a, const DecoderPass& b) { return a.depth == b.depth && a.tokens == b.tokens; }
void PrintTo(const DecoderPass& pass, std::ostream* out) { *out << pass.tokens << " at " << pass.depth; }

}  // namespace roofbench::workload

namespace roofbench::models {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Pass = workload::DecoderPass;

constexpr int64_t kPrompt = 5;
constexpr int64_t kMostNew = 14;

// The same for every `seed`, but for noise of `noise` deviations of each matrix.
DecoderWeights WeightsWith(double noise, uint64_t seed = 1) {
  const DecoderConfig config = ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  DecoderWeights weights = RandomWeights(config, Storage::Default(workload::WeightFormat::kFp32), seed).value();
  at::Generator generator = at::detail::createCPUGenerator(9);
  for (LayerWeights& layer : weights.layers) {
    for (at::Tensor* matrix : {&layer.qkv.weight, &layer.out.weight, &layer.gate_up.weight, &layer.down.weight}) {
      *matrix = *matrix + at::randn(matrix->sizes(), generator, matrix->options()) * matrix->std() * noise;
    }
  }
  return weights;
}

class SpeculationTest : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<DecoderModel> Make(const DecoderWeights& weights, int64_t piece) {
    // The last new token is not read.
    return MakeDecoder(GetParam(), weights, {.capacity = kPrompt + kMostNew - 1, .piece = piece}, 2).value();
  }
  Generation Generate(const DecoderWeights* draft, int64_t guesses, int64_t most_new, const TokenIds& stop_ids = {}) {
    const auto vocab = static_cast<int64_t>(model_.config.shape.base.vocab);
    at::Generator seeded = at::detail::createCPUGenerator(3);
    Generation generation(Make(model_, guesses + 1), vocab,
                          {.prompt = at::randint(0, vocab, {1, kPrompt}, seeded, at::kLong),
                           .most_new = most_new,
                           .stop_ids = stop_ids,
                           .draft = {.decoder = draft == nullptr ? nullptr : Make(*draft, 2), .guesses = guesses}});
    // Twice, and moved between: the second run must not depend on the first.
    generation.Run([] {});
    Generation moved = std::move(generation);
    moved.Run([] {}, /*measurement=*/1);
    return moved;
  }

  const at::NoGradGuard no_grad_;
  const DecoderWeights model_ = WeightsWith(0);
};

TEST_P(SpeculationTest, TheTextIsTheModelsOwn) {
  const Generation plain = Generate(nullptr, 0, kMostNew);
  int64_t sometimes = 0;
  for (const double noise : {0.0, 0.5, 1.0, 3.0}) {
    const DecoderWeights draft = WeightsWith(noise);
    for (const int64_t guesses : {1, 2, 3, 5, 20}) {
      for (const int64_t most_new : {1, 2, 3, 8, 14}) {
        SCOPED_TRACE(testing::Message() << "noise " << noise << ", " << guesses << " of " << most_new);
        const Generation drafted = Generate(&draft, guesses, most_new);
        const TokenIds all = plain.Ids(0);
        EXPECT_EQ(drafted.Ids(0), TokenIds(all.begin(), all.begin() + most_new));
        EXPECT_EQ(drafted.steps(), most_new);
        if (most_new == kMostNew) {
          EXPECT_LT((drafted.logits() - plain.logits()).abs().max().item<double>(), 1e-4);
        }
        const Speculation& speculation = *drafted.speculation();
        // Each pass yields the accepted tokens, and one more.
        EXPECT_EQ(speculation.accepted() + static_cast<int64_t>(speculation.model_passes().size()), most_new - 1);
        EXPECT_EQ(drafted.gaps().size(), speculation.model_passes().size());
        EXPECT_TRUE(noise > 0 || speculation.accepted() == speculation.guessed());
        if (speculation.accepted() > 0 && speculation.accepted() < speculation.guessed()) ++sometimes;
      }
    }
  }
  EXPECT_GT(sometimes, 5) << "drafts that are always or never right prove little";
}

TEST_P(SpeculationTest, AStopIdEndsItAmongGuesses) {
  const TokenIds all = Generate(nullptr, 0, kMostNew).Ids(0);
  for (const std::size_t place : {0, 1, 4, 5, 6, 13}) {
    const TokenIds stop = {all[place]};
    const Generation plain = Generate(nullptr, 0, kMostNew, stop);
    for (const double noise : {0.0, 1.0}) {
      const DecoderWeights draft = WeightsWith(noise);
      const Generation drafted = Generate(&draft, 4, kMostNew, stop);
      EXPECT_EQ(drafted.Ids(0), plain.Ids(0)) << place;
      EXPECT_TRUE(drafted.HasStopped(0));
      EXPECT_LT((drafted.logits() - plain.logits()).abs().max().item<double>(), 1e-4) << place;
      EXPECT_TRUE(drafted.Read().front().equal(plain.Read().front()));
    }
  }
}

TEST_P(SpeculationTest, CountsThePasses) {
  const DecoderWeights same = WeightsWith(0);
  const Generation right = Generate(&same, 3, 1 + 4 + 4);
  EXPECT_THAT(right.speculation()->model_passes(), ElementsAre(Pass{5, 4}, Pass{9, 4}));
  // It reads its last guess with the model's own token, which it had not made.
  EXPECT_THAT(right.speculation()->draft_passes(),
              ElementsAre(Pass{5, 1}, Pass{6, 1}, Pass{7, 1}, Pass{8, 2}, Pass{10, 1}, Pass{11, 1}));
  // The number of guesses is limited to the room left after the model's own token.
  EXPECT_THAT(Generate(&same, 3, 1 + 4 + 2).speculation()->model_passes(), ElementsAre(Pass{5, 4}, Pass{9, 2}));
  EXPECT_THAT(Generate(&same, 3, 1 + 4 + 1).speculation()->draft_passes(),
              ElementsAre(Pass{5, 1}, Pass{6, 1}, Pass{7, 1}));
  EXPECT_THAT(Generate(&same, 3, 1).speculation()->model_passes(), IsEmpty());
  const DecoderWeights other = WeightsWith(0, /*seed=*/2);
  const Generation wrong = Generate(&other, 2, 4);
  ASSERT_EQ(wrong.speculation()->accepted(), 0);
  EXPECT_EQ(wrong.speculation()->guessed(), 2 + 1 + 0);
  EXPECT_THAT(wrong.speculation()->model_passes(), ElementsAre(Pass{5, 3}, Pass{6, 2}, Pass{7, 1}));
  EXPECT_THAT(wrong.speculation()->draft_passes(), ElementsAre(Pass{5, 1}, Pass{6, 1}, Pass{6, 1}));
}

INSTANTIATE_TEST_SUITE_P(Each, SpeculationTest, testing::Values("eager", "native"),
                         [](const auto& instance) { return instance.param; });

TEST(Speculation, NeedsASingleGreedyText) {
  const at::NoGradGuard no_grad;
  const DecoderWeights weights = WeightsWith(0);
  const auto make = [&](int64_t batch) { return MakeDecoder("eager", weights, {.batch = batch, .capacity = 8}, 1); };
  EXPECT_THROW(Generation(make(2).value(), 96,
                          {.prompt = at::randint(0, 96, {2, 3}, at::kLong), .draft = {.decoder = make(2).value()}}),
               c10::Error);
  EXPECT_THROW(Generation(make(1).value(), 96,
                          {.prompt = at::randint(0, 96, {1, 3}, at::kLong),
                           .choice = {.top_k = 2},
                           .draft = {.decoder = make(1).value()}}),
               c10::Error);
}

}  // namespace
}  // namespace roofbench::models
