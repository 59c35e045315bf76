// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>

#include "lib/models/checkpoint/checkpoint.h"
#include "lib/models/checkpoint/checkpoint_summary.h"
#include "lib/models/decoding/decoder_weights.h"
#include "tests/models/checkpoint/written_checkpoint.h"

namespace roofbench::models {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using workload::WeightFormat;

constexpr int64_t kWidth = 64;
constexpr int64_t kRows = 32;  // of queries; keys and values have half
constexpr int64_t kGroup = 32;

// A folder, written tensor by tensor.
struct Parts {
  std::string method = "gptq";
  json config = {};
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes = {};
  std::vector<std::string> bytes = {};

  void Add(const std::string& name, const std::vector<int64_t>& shape, const std::vector<uint32_t>& words) {
    shapes.emplace_back(name, shape);
    bytes.emplace_back(reinterpret_cast<const char*>(words.data()), 4 * words.size());
  }
  void AddOnes(const std::string& name, const std::vector<int64_t>& shape) {
    std::size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<std::size_t>(size);
    Add(name, shape, std::vector<uint32_t>(count, std::bit_cast<uint32_t>(1.0F)));
  }
  std::string& BytesOf(const std::string& name) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (shapes[i].first == name) return bytes[i];
    }
    throw std::out_of_range(name);
  }
  std::size_t IndexOf(const std::string& name) { return static_cast<std::size_t>(&BytesOf(name) - bytes.data()); }
};

// Any bits are codes and zeros: tests/oracles/test_decoder.py compares the weights that they mean.
void AddLinear(Parts& parts, const std::string& stem, int64_t rows, int64_t columns) {
  const auto words = [](int64_t count) {
    std::vector<uint32_t> some;
    for (uint32_t i = 0; i < count; ++i) some.push_back(i * 0x9e3779b9U);
    return some;
  };
  const bool is_awq = parts.method == "awq";
  const std::string name = "model.layers.0." + stem;
  parts.Add(name + ".qweight", is_awq ? std::vector{columns, rows / 8} : std::vector{columns / 8, rows},
            words(rows * columns / 8));
  parts.Add(name + ".qzeros", {columns / kGroup, rows / 8}, words(columns / kGroup * rows / 8));
  parts.AddOnes(name + ".scales", {columns / kGroup, rows});
  if (is_awq) return;
  std::vector<uint32_t> order;
  for (int64_t column = 0; column < columns; ++column) order.push_back(static_cast<uint32_t>(column / kGroup));
  parts.Add(name + ".g_idx", {columns}, order);
}

Parts Whole(const std::string& method) {
  Parts parts{.method = method, .config = TinyConfig()};
  parts.config.update({{"vocab_size", 16}, {"hidden_size", kWidth}, {"intermediate_size", kWidth}, {"head_dim", 16}});
  parts.config["quantization_config"] = {{"quant_method", method}, {"bits", 4}, {"group_size", kGroup}};
  parts.AddOnes("model.embed_tokens.weight", {16, kWidth});
  for (const char* norm : {"model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"}) {
    parts.AddOnes(std::string(norm) + ".weight", {kWidth});
  }
  AddLinear(parts, "self_attn.q_proj", kRows, kWidth);
  AddLinear(parts, "self_attn.k_proj", kRows / 2, kWidth);
  AddLinear(parts, "self_attn.v_proj", kRows / 2, kWidth);
  AddLinear(parts, "self_attn.o_proj", kWidth, kRows);
  AddLinear(parts, "mlp.gate_proj", kWidth, kWidth);
  AddLinear(parts, "mlp.up_proj", kWidth, kWidth);
  AddLinear(parts, "mlp.down_proj", kWidth, kWidth);
  return parts;
}

absl::StatusOr<Checkpoint> Open(const Parts& parts, const TemporaryFolder& folder) {
  json header = PackTensors(parts.shapes).first;
  std::string data;
  for (std::size_t i = 0; i < parts.shapes.size(); ++i) {
    const std::string& name = parts.shapes[i].first;
    const bool floats = name.ends_with(".weight") || name.ends_with(".scales");
    header[name]["dtype"] = floats ? "F32" : "I32";
    data += parts.bytes[i];
  }
  folder.Write("config.json", parts.config.dump());
  folder.Write("model.safetensors", SafetensorsText(header.dump(), data));
  return Checkpoint::Open(folder.path());
}

TEST(PackedCheckpoints, AreDescribed) {
  const TemporaryFolder folder;
  const auto checkpoint = Open(Whole("gptq"), folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->unused(), 0U);
  const CheckpointSummary summary = Summarize(*checkpoint, {});
  double parameters = 0;
  for (const TensorGroup& group : summary.tensors) parameters += group.parameters;
  EXPECT_EQ(summary.parameters, parameters);
  EXPECT_THAT(SummaryText(summary), HasSubstr("linear layers in 4 bits (gptq, groups of 32)"));
  EXPECT_EQ(json(SummaryJson(summary)["packed"]), json({{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}}));
  for (const PrecisionSummary& row : summary.precisions) {
    const auto loaded = LoadWeights(*checkpoint, DefaultStorage(checkpoint->config(), row.format));
    EXPECT_EQ(row.fits, loaded.status()) << Name(row.format);
    if (loaded.ok()) {
      EXPECT_EQ(row.weight_bytes, static_cast<double>(loaded->nbytes())) << Name(row.format);
    }
    const bool refused =
        row.format == WeightFormat::kInt8 || row.format == WeightFormat::kLlmInt8 || row.format == WeightFormat::kFp8;
    EXPECT_EQ(row.fits.ok(), !refused) << Name(row.format) << row.fits;
    if (refused) {
      EXPECT_THAT(std::string(row.fits.message()), HasSubstr("a checkpoint that is stored in 4 bits (gptq)"));
    }
  }
}

TEST(PackedCheckpoints, KeepTheirGroups) {
  const TemporaryFolder folder;
  const auto checkpoint = Open(Whole("awq"), folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  Storage storage = DefaultStorage(checkpoint->config(), WeightFormat::kInt4);
  EXPECT_EQ(storage.group, 32);
  storage.group = 64;
  EXPECT_THAT(std::string(LoadWeights(*checkpoint, storage).status().message()),
              HasSubstr("int4 in groups of 64 cannot keep the codes of a checkpoint in groups of 32"));
}

TEST(PackedCheckpoints, NonFiniteScalesAreRefused) {
  for (const float scale : {std::numeric_limits<float>::infinity(), std::nanf(""), 1e38F}) {
    const TemporaryFolder folder;
    Parts parts = Whole("awq");
    std::memcpy(parts.BytesOf("model.layers.0.mlp.down_proj.scales").data(), &scale, sizeof(scale));
    const auto checkpoint = Open(parts, folder);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    const auto weights = LoadWeights(*checkpoint, DefaultStorage(checkpoint->config(), WeightFormat::kInt4));
    EXPECT_THAT(std::string(weights.status().message()), HasSubstr("mlp.down_proj.weight holds weights that are not"));
  }
}

// decoder_config_test.cc has the errors of quantization_config itself.
TEST(PackedCheckpoints, BrokenOnesAreRefusedWithTheReason) {
  const json gptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}, {"desc_act", true}};
  const struct {
    const char* method;
    std::function<void(Parts&)> damage;
    const char* error;
  } table[] = {
      {"gptq", [](Parts& p) { p.config["quantization_config"]["group_size"] = 24; },
       "not supported: 4 bits of model.layers.0.mlp.down_proj.weight, which is [64, 64]"},
      {"gptq",
       [&](Parts& p) {
         p.config["quantization_config"] = gptq;
         p.BytesOf("model.layers.0.mlp.up_proj.g_idx")[0] = 1;
       },
       "not supported: desc_act, by which model.layers.0.mlp.up_proj.g_idx spreads the columns"},
      {"awq",
       [&](Parts& p) {
         p.config["quantization_config"] = gptq;
         for (auto& [name, shape] : p.shapes) {
           if (name.ends_with(".qweight")) shape = {shape[0] / 8, shape[1] * 8};
         }
       },
       "lacks the tensor model.layers.0.mlp.down_proj.g_idx, which desc_act implies"},
      {"gptq", [](Parts& p) { p.shapes[p.IndexOf("model.layers.0.self_attn.q_proj.qzeros")].first = "other"; },
       "lacks the tensor model.layers.0.self_attn.q_proj.qzeros"},
      {"gptq", [](Parts& p) { p.config["quantization_config"]["quant_method"] = "awq"; },
       "mlp.down_proj.qweight is [8, 64] where config.json implies [64, 8]"},
  };
  for (const auto& [method, damage, error] : table) {
    const TemporaryFolder folder;
    Parts parts = Whole(method);
    damage(parts);
    EXPECT_THAT(std::string(Open(parts, folder).status().message()), HasSubstr(error));
  }
}

constexpr int64_t kPackedRows = 64;
constexpr int64_t kColumns = 96;

// A large matrix is read some rows at a time.
class PackedRowsOf : public testing::TestWithParam<PackedFormat::Packing> {};
TEST_P(PackedRowsOf, PartsEqualTheWhole) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  const auto words = [&](at::IntArrayRef shape) {
    return at::randint(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), shape, generator,
                       at::kInt);
  };
  const bool is_gptq = GetParam() == PackedFormat::Packing::kGptq;
  const PackedLayer layer{.format = {.packing = GetParam(), .group = kGroup, .added_to_zeros = 1},
                          .qweight = is_gptq ? words({kColumns / kCodesPerWord, kPackedRows})
                                             : words({kColumns, kPackedRows / kCodesPerWord}),
                          .qzeros = words({kColumns / kGroup, kPackedRows / kCodesPerWord}),
                          .scales = at::rand({kColumns / kGroup, kPackedRows}, generator)};
  ASSERT_EQ(layer.columns(), kColumns);
  const PackedRows whole = layer.Rows(0, kPackedRows);
  for (const int64_t first : {8, 24, 56}) {
    const PackedRows part = layer.Rows(first, 8);
    EXPECT_TRUE(part.codes.equal(whole.codes.narrow(0, first, 8))) << first;
    EXPECT_TRUE(part.zeros.equal(whole.zeros.narrow(0, first, 8))) << first;
    EXPECT_TRUE(part.scales.equal(whole.scales.narrow(0, first, 8))) << first;
    EXPECT_FALSE(part.zeros.equal(whole.zeros.narrow(0, 0, 8))) << first;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, PackedRowsOf, testing::Values(PackedFormat::Packing::kGptq, PackedFormat::Packing::kAwq),
                         [](const auto& test) { return PackedFormat{.packing = test.param}.Name(); });

}  // namespace
}  // namespace roofbench::models
