// SPDX-License-Identifier: Apache-2.0
// Models take different paths on a device than on the CPU, so that the host need not wait for the device.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/macro/generation.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/decoding/llm_int8.h"
#include "lib/models/generation/generation.h"
#include "lib/models/training/optimizer.h"
#include "lib/timing/sampler.h"
#include "lib/workload/models/decoder.h"
#include "lib/workload/operators/elementwise.h"
#include "tests/benchmarks/every_case.h"
#include "tests/device/accelerator/accelerator_gpu.h"
#include "tests/device/fake_device.h"
#include "tests/models/decoding/variants.h"
#include "tests/suite/plain_family.h"

namespace roofbench {
namespace {

using models::LlmInt8Linear;
using workload::WeightFormat;

double Off(const at::Tensor& a, const at::Tensor& b) {
  return a.to(at::kCPU, at::kDouble).sub(b.to(at::kCPU, at::kDouble)).abs().max().item<double>();
}

// Waits of the device in `work`.
template <typename Work>
int64_t WaitsOf(Work work) {
  const accelerator::Counts before = accelerator::CountsNow();
  work();
  return (accelerator::CountsNow() - before).synchronizations;
}

// Random weights of a preset on the device.
models::DecoderWeights WeightsOf(const char* preset, WeightFormat format = WeightFormat::kFp32,
                                 at::Device device = accelerator::TheDevice()) {
  const auto config = models::ConfigOf(*workload::FindDecoderPreset(preset));
  models::DecoderWeights weights = models::RandomWeights(config, models::Storage::Default(format), 1).value();
  TORCH_CHECK(weights.MoveTo(device).ok());
  return weights;
}

// The texts of a generation that has run, for up to 16 tokens each.
std::vector<models::TokenIds> TextsOf(const models::DecoderWeights& weights, int64_t batch,
                                      models::Generation::Options options) {
  models::Generation generation(std::make_unique<models::EagerDecoder>(weights, batch, 16), 96, std::move(options));
  generation.Run([] {});
  std::vector<models::TokenIds> texts;
  for (int64_t text = 0; text < batch; ++text) texts.push_back(generation.Ids(text));
  return texts;
}

class LlmInt8OnADevice : public testing::Test {
 protected:
  // Outliers in every `apart`th column.
  void Make(int64_t apart, int64_t tokens = 4) {
    at::Generator seeded = at::detail::createCPUGenerator(11);
    x_ = at::randn({tokens, 256}, seeded).clamp_(-5, 5);
    x_.slice(1, 0, 256, apart).select(0, 1).fill_(9);
    x_.slice(1, 0, 256, apart).select(0, 2).fill_(-7);
    weight_ = models::QuantizeLlmInt8(at::randn({48, 256}, seeded));
    there_ = {weight_.weight.to(accelerator::TheDevice()), weight_.row_max.to(accelerator::TheDevice())};
    x_there_ = x_.to(accelerator::TheDevice());
  }

  const at::NoGradGuard no_grad_;
  at::Tensor x_, x_there_;
  models::LlmInt8Matrix weight_, there_;
};

TEST_F(LlmInt8OnADevice, NeedsNoWaitForATokenOrAPrompt) {
  for (const int64_t tokens : {4, 33, 200}) {
    Make(16, tokens);
    at::Tensor y;
    EXPECT_EQ(WaitsOf([&] { y = LlmInt8Linear(x_there_, there_, 6); }), 0);
    EXPECT_LT(Off(y, LlmInt8Linear(x_, weight_, 6)), 1e-4);
    EXPECT_GT(Off(y, LlmInt8Linear(x_, weight_, 0)), 1e-2) << "the decomposition can be seen";
  }
}

TEST_F(LlmInt8OnADevice, HasRoomForWhatIsPublished) {
  EXPECT_EQ(models::LlmInt8Room(48), 48);
  EXPECT_EQ(models::LlmInt8Room(1024), 64);
  // Sweeps of one column in a hundred.
  for (const int64_t k : {4096, 14336, 28672}) EXPECT_GE(models::LlmInt8Room(k), k / 100);
}

// More outliers than there is room for: the others are quantized with the rest, which rounds more but is still the same
// product.
TEST_F(LlmInt8OnADevice, QuantizesOutliersThatItHasNoRoomFor) {
  Make(2);
  const at::Tensor y = LlmInt8Linear(x_there_, there_, 6);
  const at::Tensor exact = LlmInt8Linear(x_, weight_, 6);
  EXPECT_LT(Off(y, exact), 2 * Off(LlmInt8Linear(x_, weight_, 0), exact));
  EXPECT_LT(Off(y, exact), 0.02 * exact.abs().max().item<double>());
}

// Sequences of four tokens, and then of one.
class MixtureOnADevice : public testing::TestWithParam<int64_t> {};

TEST_P(MixtureOnADevice, GivesTheLogitsOfTheCpu) {
  const at::NoGradGuard no_grad;
  const int64_t batch = GetParam();
  const models::DecoderWeights weights = WeightsOf("tiny_mixtral", WeightFormat::kFp32, at::kCPU);
  models::EagerDecoder here(weights, batch, 8);
  at::Generator seeded = at::detail::createCPUGenerator(3);
  const at::Tensor tokens = at::randint(0, 96, {batch, 5}, seeded, at::kLong);
  const at::Tensor prompt = here.Append(tokens.narrow(1, 0, 4).contiguous()).clone();
  const at::Tensor token = here.AppendOne(tokens.select(1, 4).contiguous()).clone();

  const models::DecoderWeights moved = WeightsOf("tiny_mixtral");
  models::EagerDecoder there(moved, batch, 8);
  const at::Tensor tokens_there = tokens.to(accelerator::TheDevice());
  const auto layers = static_cast<int64_t>(weights.config.shape.base.layers);
  at::Tensor logits;
  const int64_t prompt_waits =
      WaitsOf([&] { logits = there.Append(tokens_there.narrow(1, 0, 4).contiguous()).clone(); });
  EXPECT_LT(Off(logits, prompt), 1e-4);
  EXPECT_EQ(prompt_waits, 4 * batch <= models::EagerDecoder::kMostMasked ? 0 : layers)
      << "of a long prompt one per layer, where the experts' tokens are counted";
  EXPECT_EQ(WaitsOf([&] { logits = there.AppendOne(tokens_there.select(1, 4).contiguous()).clone(); }), 0);
  EXPECT_LT(Off(logits, token), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Batches, MixtureOnADevice, testing::Values(1, 2, 9, 33));

// With every option that a model can have; and the head stays tied.
class DecoderOnADevice : public testing::TestWithParam<WeightFormat> {};

TEST_P(DecoderOnADevice, GivesTheLogitsOfTheCpu) {
  const at::NoGradGuard no_grad;
  models::DecoderConfig config = models::ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  models::AddEverything(config);
  config.shape.base.tied_head = true;
  const auto make = [&] { return models::RandomWeights(config, models::Storage::Default(GetParam()), 1).value(); };
  const models::DecoderWeights weights = make();
  models::DecoderWeights moved = make();
  ASSERT_TRUE(moved.MoveTo(accelerator::TheDevice()).ok());
  EXPECT_EQ(moved.nbytes(), weights.nbytes());
  for (const models::Arithmetic arithmetic : {models::Arithmetic::kStored, models::Arithmetic::kExact}) {
    models::EagerDecoder here(weights, 2, 12, arithmetic);
    models::EagerDecoder there(moved, 2, 12, arithmetic);
    const auto logits = [](models::EagerDecoder& decoder, at::Device device) {
      const at::Tensor tokens = at::arange(20, at::kLong).to(device);
      std::vector<at::Tensor> all = {decoder.Append(tokens.narrow(0, 0, 10).view({2, 5})).clone()};
      all.push_back(decoder.Append(tokens.narrow(0, 10, 6).view({2, 3})).clone());
      decoder.SetToken(tokens.narrow(0, 16, 2));
      decoder.AppendSet();
      all.push_back(decoder.CountSet().clone());
      all.push_back(decoder.AppendTo({{1, 1}}, tokens.narrow(0, 3, 1)).clone());
      all.push_back(decoder.AppendTo({{0, 2}, {1, 1}}, tokens.narrow(0, 5, 3)).clone());
      return all;
    };
    const std::vector<at::Tensor> expected = logits(here, at::kCPU);
    const std::vector<at::Tensor> found = logits(there, accelerator::TheDevice());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].device(), accelerator::TheDevice());
      EXPECT_LT(Off(found[i], expected[i]), GetParam() == WeightFormat::kFp32 ? 1e-4 : 0.05) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, DecoderOnADevice,
                         testing::Values(WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kFp16,
                                         WeightFormat::kInt8, WeightFormat::kLlmInt8, WeightFormat::kFp8),
                         [](const auto& instance) { return std::string(Name(instance.param)); });

TEST(Int4OnADevice, StaysOnTheCpu) {
  models::DecoderWeights weights = models::WeightsOf({"eager", "tiny_llama", WeightFormat::kInt4});
  EXPECT_EQ(weights.MoveTo(accelerator::TheDevice()).code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(weights.MoveTo(at::kCPU).ok());
}

// Launches in `work` while LibTorch may not take cuDNN for attention.
template <typename Work>
int LaunchesWithoutCudnn(Work work) {
  int launches = 0;
  accelerator::OnLaunch([&] { launches += at::globalContext().userEnabledCuDNNSDP() ? 0 : 1; });
  work();
  accelerator::OnLaunch(nullptr);
  EXPECT_TRUE(at::globalContext().userEnabledCuDNNSDP());
  return launches;
}

// cuDNN makes a plan for every number of keys, of which only prompts have few.
TEST(AttentionOnADevice, TakesCudnnForWholePromptsAlone) {
  const at::NoGradGuard no_grad;
  const models::DecoderWeights weights = WeightsOf("tiny_llama");
  models::EagerDecoder decoder(weights, 2, 16);
  const auto tokens = [](at::IntArrayRef shape) { return at::zeros(shape, at::kLong).to(accelerator::TheDevice()); };
  EXPECT_EQ(LaunchesWithoutCudnn([&] { decoder.Append(tokens({2, 4})); }), 0);
  EXPECT_GT(LaunchesWithoutCudnn([&] { decoder.AppendOne(tokens({2})); }), 0);
  EXPECT_GT(LaunchesWithoutCudnn([&] { decoder.AppendAll(tokens({2, 3})); }), 0) << "the guesses of a draft";
  decoder.SetToken(tokens({2}));
  EXPECT_GT(LaunchesWithoutCudnn([&] { decoder.AppendSet(); }), 0);
  decoder.CountSet();
  EXPECT_GT(LaunchesWithoutCudnn([&] { decoder.AppendTo({{1, 1}}, tokens({1})); }), 0) << "the other text has ended";
  decoder.Truncate(0);
  EXPECT_EQ(LaunchesWithoutCudnn([&] { decoder.AppendTo({{0, 2}, {1, 5}}, tokens({7})); }), 0);
}

class PreparedGeneration : public testing::Test {
 protected:
  // Attentions while the generation is built.
  int64_t Prepared(const char* prompt, const char* most_new, const std::vector<models::TokenIds>& prompts = {},
                   const TextRules& rules = {}) {
    const PlannedCase planned = CaseAt("generate", {{"impl", "eager"},
                                                    {"model", "tiny_llama"},
                                                    {"precision", "fp32"},
                                                    {"batch", prompts.empty() ? "1" : absl::StrCat(prompts.size())},
                                                    {"prompt", prompt},
                                                    {"new", most_new}});
    Inputs inputs(*device_, 1, "generate");
    const accelerator::Counts before = accelerator::CountsNow();
    auto built = GenerationAt(planned.point, inputs, prompts, rules);
    EXPECT_TRUE(built.ok()) << built.status();
    EXPECT_TRUE(built->prepare_seconds.has_value());
    const int64_t attentions = (accelerator::CountsNow() - before).operators["aten::_softmax"];
    auto generation = std::make_shared<GenerationCase>(*std::move(built));
    generation->prepare_seconds = 2;
    Case described;
    DescribeGeneration(planned.point, generation, described);
    std::optional<double> figure;
    for (const auto& [name, value] : described.figures) {
      if (name == "prepare_ms") figure = value();
    }
    EXPECT_EQ(figure, 2000);
    return attentions;
  }

  timing::FakeMachine machine_;
  AcceleratorGpu* gpu_ = nullptr;
  const std::unique_ptr<GpuDevice> device_ = MakeAcceleratorDevice(machine_, gpu_);
};

TEST_F(PreparedGeneration, HasMetTheLengthOfEachPromptBeforeItBegins) {
  EXPECT_EQ(Prepared("6", "2"), 1);
  EXPECT_EQ(Prepared("6", "9"), 1) << "tokens need no plan";
  EXPECT_EQ(Prepared("1", "9"), 0);
  EXPECT_EQ(Prepared("6", "2", {{1, 2, 3}, {4, 5}, {1, 2, 3, 4, 5, 6}, {7, 8, 9}, {1}}), 3);
  EXPECT_EQ(Prepared("6", "2", {{1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}}), 1);
}

TEST_F(PreparedGeneration, ADraftHasMetItToo) {
  const PlannedCase planned =
      CaseAt("generate", {{"impl", "eager"}, {"model", "tiny_llama"}, {"prompt", "6"}, {"new", "4"}});
  EXPECT_EQ(Prepared("6", "4", {{1, 2, 3, 4, 5, 6}}, {.draft = planned.point.With("precision", "fp16"), .guesses = 2}),
            2);
}

// Each mark is an event, of which a step would have hundreds.
TEST(LlmInt8StagesOnADevice, AreTakenBesideTheSamples) {
  timing::FakeMachine machine;
  AcceleratorGpu* gpu = nullptr;
  const auto accelerator = MakeAcceleratorDevice(machine, gpu);
  FakeDevice processor;
  for (const char* family : {"prefill", "decode"}) {
    const char* const length = family == std::string("decode") ? "depth" : "prompt";
    const PlannedCase planned = CaseAt(
        family, {{"impl", "eager"}, {"model", "tiny_llama"}, {"precision", "llm_int8"}, {"batch", "1"}, {length, "4"}});
    for (Device* const device : {static_cast<Device*>(accelerator.get()), static_cast<Device*>(&processor)}) {
      Inputs inputs(*device, 1, family);
      const auto built = planned.family->BuildAt(planned.point, inputs);
      ASSERT_TRUE(built.ok()) << built.status();
      EXPECT_FALSE(built->phases.empty());
      EXPECT_EQ(built->marks_beside, device != &processor) << family;
    }
  }
}

// An additional token must not add a wait.
TEST(GenerationOnADevice, WaitsOnceAGeneration) {
  const at::NoGradGuard no_grad;
  for (const char* model : {"tiny_llama", "tiny_mixtral"}) {
    for (const int64_t top_k : {1, 20}) {
      std::vector<int64_t> waits;
      for (const int64_t most : {3, 7}) {
        const models::DecoderWeights weights = WeightsOf(model);
        const at::Tensor prompt = at::zeros({1, 4}, at::kLong).to(accelerator::TheDevice());
        models::Generation generation(std::make_unique<models::EagerDecoder>(weights, 1, 16), 96,
                                      {.prompt = prompt, .most_new = most, .choice = {.top_k = top_k}});
        generation.Run([] {});
        waits.push_back(WaitsOf([&] { generation.Run([] {}); }));
        EXPECT_EQ(generation.Ids(0).size(), static_cast<std::size_t>(most));
      }
      EXPECT_EQ(waits[0], waits[1]) << model;
    }
  }
}

// The host reads the tokens for the ends, and the device chooses and appends those of the sequences that are left.
TEST(GenerationOnADevice, RaggedPromptsEndOnTheirOwn) {
  const at::NoGradGuard no_grad;
  const auto texts = [](at::Device device, const models::TokenIds& stops, int64_t top_k) {
    return TextsOf(WeightsOf("tiny_llama", WeightFormat::kFp32, device), 3,
                   {.prompt = at::arange(9, at::kLong).to(device),
                    .lengths = {2, 6, 1},
                    .most_new = 6,
                    .stop_ids = stops,
                    .choice = {.top_k = top_k, .temperature = 1, .seed = 1}});
  };
  const int64_t stop = texts(at::kCPU, {}, 1)[1][2];
  const auto on_host = texts(at::kCPU, {stop}, 1);
  EXPECT_LE(on_host[1].size(), 3);
  EXPECT_EQ(texts(accelerator::TheDevice(), {stop}, 1), on_host);
  for (const models::TokenIds& text : texts(accelerator::TheDevice(), {stop}, 20)) EXPECT_FALSE(text.empty());
}

TEST(GenerationOnADevice, SamplesOnTheHost) {
  const at::NoGradGuard no_grad;
  const at::Tensor prompt = at::arange(8, at::kLong).view({2, 4}).to(accelerator::TheDevice());
  const auto texts = [&](const std::optional<models::SamplingOptions>& sampling) {
    return TextsOf(WeightsOf("tiny_llama"), 2, {.prompt = prompt, .most_new = 6, .sampling = sampling});
  };
  const auto likeliest = texts(std::nullopt);
  EXPECT_EQ(texts(models::SamplingOptions{.top_k = 1}), likeliest);
  EXPECT_NE(texts(models::SamplingOptions{.temperature = 100}), likeliest);
}

// The draft is another model, which is sometimes right.
TEST(GenerationOnADevice, ADraftDoesNotChangeTheText) {
  const at::NoGradGuard no_grad;
  const models::DecoderWeights guessing = WeightsOf("tiny_llama", WeightFormat::kInt8);
  const auto texts = [&](int64_t guesses) {
    std::shared_ptr<models::DecoderModel> draft;
    if (guesses > 0) draft = std::make_shared<models::EagerDecoder>(guessing, 1, 16);
    return TextsOf(WeightsOf("tiny_llama"), 1,
                   {.prompt = at::arange(4, at::kLong).view({1, 4}).to(accelerator::TheDevice()),
                    .most_new = 12,
                    .draft = {.decoder = draft, .guesses = guesses}});
  };
  EXPECT_EQ(texts(3), texts(0));
}

// LibTorch's own reads, as the clock of a GPU sees them.
TEST(LaunchBound, IsNoStepThatWaits) {
  timing::FakeMachine machine;
  machine.enqueue_seconds = 5e-6;
  AcceleratorGpu* gpu = nullptr;
  const auto device = MakeAcceleratorDevice(machine, gpu);
  const at::Tensor x = at::zeros({8}, at::kFloat).to(accelerator::TheDevice());
  const auto ratio = [&](double operator_seconds) {
    gpu->operator_seconds = operator_seconds;
    const auto step = [&](timing::PhaseMarker&) {
      for (int i = 0; i < 20; ++i) x.add_(1);
      x.select(0, 0).item<float>();
      x.to(at::kCPU);
    };
    return timing::TakeSamples(device->clock(), step, 0, nullptr, {}).host_enqueue_ratio;
  };
  EXPECT_LT(ratio(50e-6), 0.2);
  EXPECT_GT(ratio(1e-6), 1);
}

// The same check for a whole case, whose clock runs inside the energy clock.
TEST(LaunchBound, IsNoCaseThatWaits) {
  timing::FakeMachine machine;
  machine.enqueue_seconds = 5e-6;
  AcceleratorGpu* gpu = nullptr;
  const auto device = MakeAcceleratorDevice(machine, gpu);
  const Family family = PlainFamily("waits", "reads a number per step")
                            .Axis({.name = "impl", .choices = {"eager"}, .default_value = "eager"})
                            .DefaultCache("warm")
                            .Grid(Suite::kQuick, {{"impl", {"eager"}}})
                            .Cost([](const Point&) { return workload::CopyStream{1 << 10}.Cost(); })
                            .Build([](const Point&, Inputs& in) -> absl::StatusOr<Case> {
                              const at::Tensor x = in.Randn({16});
                              const at::Tensor y = in.Randn({16});
                              return Case{.step =
                                              [=](timing::PhaseMarker&) {
                                                for (int i = 0; i < 20; ++i) y.add_(1);
                                                y.select(0, 0).item<float>();
                                              },
                                          .result = [=] { return std::vector{x}; },
                                          .reference = [=] { return std::vector{x}; }};
                            });
  const Point point = family.Points(Suite::kQuick)[0];
  const auto launch_bound = [&](double operator_seconds) {
    gpu->operator_seconds = operator_seconds;
    RunOptions options;
    options.reference = "a100-sxm4-40gb";
    options.sampling.roof_share = 0;
    Session session(options, *device, {{&family, point, point.Name()}}, nullptr);
    const Outcome& outcome = session.Run(0);
    EXPECT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
    for (const auto& [name, value] : outcome.counters) {
      if (name == "launch_bound") return value;
    }
    return -1.0;
  };
  EXPECT_EQ(launch_bound(50e-6), 0);
  EXPECT_EQ(launch_bound(1e-6), 1);
}

// On a GPU, torch.optim runs operators over all parameters at once.
TEST(OptimizerOnADevice, TakesTheOperatorsOverAllParameters) {
  const auto launches = [](models::MakeOptimizer make, int64_t count) {
    std::vector<at::Tensor> parameters;
    for (int64_t i = 0; i < count; ++i) {
      at::Tensor parameter = at::ones({4}, at::kFloat).to(accelerator::TheDevice()).requires_grad_(true);
      parameter.mutable_grad() = at::ones({4}, at::kFloat).to(accelerator::TheDevice());
      parameters.push_back(parameter);
    }
    const auto optimizer = make(parameters, {});
    optimizer->Step();
    const accelerator::Counts before = accelerator::CountsNow();
    optimizer->Step();
    return (accelerator::CountsNow() - before).launches;
  };
  for (const models::MakeOptimizer make : {models::MakeSgd, models::MakeAdamW, models::MakeFusedAdamW}) {
    EXPECT_EQ(launches(make, 3), launches(make, 9));
  }
}

}  // namespace
}  // namespace roofbench
