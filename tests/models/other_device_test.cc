// SPDX-License-Identifier: Apache-2.0
// The models on another device than the CPU. It is LibTorch's `meta`, whose tensors have a shape and no data: code that
// reads them on the host, or mixes them with a tensor of the CPU, throws. A GPU has the same requirements.

#include <ATen/ExpandUtils.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <vector>

#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/training/trainer.h"
#include "tests/models/decoding/variants.h"

namespace roofbench::models {
namespace {

// LibTorch has these for Python alone.
at::Tensor ShapeOfSelected(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  TORCH_CHECK(index.is_meta(), "the index of index_select is on ", index.device());
  std::vector<int64_t> shape = self.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = index.numel();
  return at::empty(shape, self.options());
}

at::Tensor ShapeOfChosen(const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b) {
  // A number may be of the CPU, as on a GPU.
  for (const at::Tensor& one : {condition, a, b}) TORCH_CHECK(one.is_meta() || one.dim() == 0, "a tensor of the CPU");
  const std::vector<int64_t> both = at::infer_size(a.sizes(), b.sizes());
  return at::empty(at::infer_size(condition.sizes(), both), a.options().device(at::kMeta));
}

at::Tensor& ShapeOfChosenOut(const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  out.resize_(ShapeOfChosen(condition, a, b).sizes());
  return out;
}

at::Tensor ShapeOfProduct(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.is_meta() && b.is_meta() && a.size(1) == b.size(0));
  return at::empty({a.size(0), b.size(1)}, a.options().dtype(at::kInt));
}

at::Tensor ShapeOfInt8Product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scales) {
  TORCH_CHECK(x.is_meta() && weight.is_meta() && scales.is_meta());
  return at::empty({x.size(0), weight.size(0)}, x.options());
}

at::Tensor ShapeOfEmbedding(const at::Tensor& gradient, const at::Tensor& tokens, c10::SymInt vocab, c10::SymInt,
                            bool) {
  TORCH_CHECK(gradient.is_meta() && tokens.is_meta());
  return at::empty({vocab.expect_int(), gradient.size(-1)}, gradient.options());
}

void Update(at::TensorList parameters, at::TensorList gradients, at::TensorList means, at::TensorList squares,
            at::TensorList, at::TensorList steps, double, double, double, double, double, bool, bool,
            const std::optional<at::Tensor>&, const std::optional<at::Tensor>&) {
  for (const at::TensorList list : {parameters, gradients, means, squares, steps}) {
    for (const at::Tensor& tensor : list) TORCH_CHECK(tensor.is_meta(), "the optimizer holds a tensor of the CPU");
  }
}

at::Tensor& ShapeOfMagnitudes(const at::Tensor& self, at::Tensor& out) {
  out.resize_(self.sizes());
  return out;
}

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("index_select", &ShapeOfSelected);
  library.impl("where.self", &ShapeOfChosen);
  library.impl("where.self_out", &ShapeOfChosenOut);
  library.impl("_int_mm", &ShapeOfProduct);
  library.impl("_weight_int8pack_mm", &ShapeOfInt8Product);
  library.impl("embedding_dense_backward", &ShapeOfEmbedding);
  library.impl("_fused_adamw_", &Update);
  library.impl("abs.out", &ShapeOfMagnitudes);
}

using workload::WeightFormat;

TEST(OtherDevice, ATrainingStepStaysThere) {
  constexpr int64_t kContext = 8;
  constexpr workload::Transformer kShape{.d_model = 16, .d_ff = 40, .layers = 2, .heads = 2, .vocab = 23};
  const auto on_meta = at::TensorOptions(at::kMeta);
  for (const Attention attention : {Attention::kSdpa, Attention::kNaive}) {
    TransformerModel model(
        kShape, kContext, {.heads = 2, .attention = attention, .device = at::kMeta},
        [&](at::IntArrayRef shape, double) { return at::empty(shape, on_meta).requires_grad_(true); });
    std::vector<at::Tensor> parameters = model.Parameters();
    Trainer trainer(std::move(model), MakeFusedAdamW(std::move(parameters), {}), /*autocast=*/false);
    const at::Tensor tokens = at::empty({2, kContext}, on_meta.dtype(at::kLong));
    const at::Tensor loss = trainer.Forward(tokens, tokens);
    EXPECT_TRUE(loss.is_meta());
    trainer.Backward(loss);
    EXPECT_GT(trainer.GradientBytes(), 0);
    trainer.Optimize();
    EXPECT_TRUE(trainer.Logits(tokens).is_meta());
  }
}

// The second: with everything that a model can have.
class OtherDeviceDecoder : public testing::TestWithParam<std::tuple<WeightFormat, bool>> {};

TEST_P(OtherDeviceDecoder, StaysThere) {
  const at::NoGradGuard no_grad;
  const auto [format, has_all] = GetParam();
  Storage storage = Storage::Default(format);
  storage.outlier_threshold = 0;  // columns with outliers are looked for on the host
  DecoderConfig config = ConfigOf(*workload::FindDecoderPreset("tiny_llama"));
  if (has_all) AddEverything(config);
  DecoderWeights weights = RandomWeights(config, storage, 1).value();
  const int64_t bytes = weights.nbytes();
  ASSERT_TRUE(weights.MoveTo(at::kMeta).ok());
  EXPECT_EQ(weights.nbytes(), bytes) << "the head stays tied";
  for (const Arithmetic arithmetic : {Arithmetic::kStored, Arithmetic::kExact}) {
    EagerDecoder decoder(weights, 2, 12, arithmetic);
    EXPECT_TRUE(decoder.Append(at::randint(0, 9, {2, 5}, at::kLong)).is_meta());
    EXPECT_TRUE(decoder.Append(at::randint(0, 9, {2, 3}, at::kLong)).is_meta());
    const at::Tensor tokens = at::empty({2}, at::TensorOptions(at::kMeta).dtype(at::kLong));
    EXPECT_TRUE(decoder.AppendOne(tokens).is_meta());
    decoder.SetToken(tokens);
    decoder.AppendSet();
    EXPECT_TRUE(decoder.CountSet().is_meta());
    EXPECT_EQ(decoder.length(), 10);
    EXPECT_TRUE(decoder.AppendTo({{1, 1}}, tokens.narrow(0, 0, 1)).is_meta());
    EXPECT_TRUE(decoder.AppendTo({{0, 2}, {1, 1}}, at::randint(0, 9, {3}, at::kLong)).is_meta());
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, OtherDeviceDecoder,
                         testing::Combine(testing::Values(WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kFp16,
                                                          WeightFormat::kInt8, WeightFormat::kLlmInt8,
                                                          WeightFormat::kFp8),
                                          testing::Bool()),
                         [](const auto& instance) {
                           return std::string(Name(std::get<0>(instance.param))) +
                                  (std::get<1>(instance.param) ? "_all" : "");
                         });

TEST(OtherDevice, Int4StaysOnTheCpu) {
  DecoderWeights weights = WeightsOf({"eager", "tiny_llama", WeightFormat::kInt4});
  EXPECT_EQ(weights.MoveTo(at::kMeta).code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(weights.MoveTo(at::kCPU).ok());
}

}  // namespace
}  // namespace roofbench::models
