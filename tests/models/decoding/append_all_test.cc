// SPDX-License-Identifier: Apache-2.0
// Tokens that are appended at once say after each what they say one by one, in whatever way a decoder takes them.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/models/decoding/decoder_model.h"
#include "lib/workload/models/decoder.h"
#include "tests/models/decoding/everything.h"

namespace roofbench::models {
namespace {

using workload::WeightFormat;

constexpr int64_t kCapacity = 24;
constexpr int64_t kPiece = 4;

struct Variant {
  const char* implementation;
  const char* model;
  WeightFormat format;
  bool has_all = false;  // as AddEverything has it
  bool int8_cache = false;
};

class AppendAll : public testing::TestWithParam<Variant> {
 protected:
  AppendAll() {
    Storage storage = Storage::Default(GetParam().format);
    storage.group = 32;
    storage.int8_cache = GetParam().int8_cache;
    DecoderConfig config = ConfigOf(*workload::FindDecoderPreset(GetParam().model));
    if (GetParam().has_all) AddEverything(config);
    weights_ = RandomWeights(config, storage, 1).value();
    at::Generator generator = at::detail::createCPUGenerator(5);
    for (LayerWeights& layer : weights_.layers) {
      if (layer.qkv_bias.defined()) layer.qkv_bias.normal_(0, 1, generator);
      // Far from a mean over all tokens, so that it shows which of them are attended to, and from where.
      layer.query_norm.defined() ? layer.query_norm.mul_(4) : layer.attention_norm.mul_(2);
    }
  }
  std::unique_ptr<DecoderModel> Make(int64_t batch, int64_t piece) {
    return MakeDecoder(GetParam().implementation, weights_, {.batch = batch, .capacity = kCapacity, .piece = piece}, 2)
        .value();
  }

  const at::NoGradGuard no_grad_;
  DecoderWeights weights_;
};

// Pieces of one token, of some, of as many as there is room for, and of more; what is read is taken back and read
// again.
TEST_P(AppendAll, SaysAfterEachWhatIsSaidOneByOne) {
  at::Generator generator = at::detail::createCPUGenerator(3);
  // The deviation of a query that is turned for another place is 0.4 or more; of two roundings 0.03.
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
          const at::Tensor off = (found[b][i] - expected[b]).square().mean() / expected[b].square().mean();
          EXPECT_LT(off.sqrt().item<double>(), bound) << "token " << i << " of " << tokens << ", sequence " << b;
        }
      }
      EXPECT_EQ(whole->length(), one_by_one->length());
    }
    EXPECT_THROW(whole->AppendAll(at::randint(0, 96, {batch, kPiece}, generator, at::kLong)), c10::Error)
        << "the cache has room for three more";
  }
}

std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  for (const char* implementation : {"eager", "native"}) {
    for (const WeightFormat format :
         {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4}) {
      variants.push_back({implementation, "tiny_llama", format});
      variants.push_back({implementation, "tiny_llama", format, /*has_all=*/true});
      variants.push_back({implementation, "tiny_llama", format, /*has_all=*/true, /*int8_cache=*/true});
    }
    variants.push_back({implementation, "tiny_mixtral", WeightFormat::kFp32});
  }
  return variants;
}

INSTANTIATE_TEST_SUITE_P(Each, AppendAll, testing::ValuesIn(Variants()), [](const auto& instance) {
  const Variant& variant = instance.param;
  return std::string(variant.implementation) + "_" + variant.model + "_" + std::string(Name(variant.format)) +
         (variant.has_all ? "_all" : "") + (variant.int8_cache ? "_int8_cache" : "");
});

}  // namespace
}  // namespace roofbench::models
