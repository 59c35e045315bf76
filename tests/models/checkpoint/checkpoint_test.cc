// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/checkpoint.h"

#include <ATen/ops/cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <tuple>

#include "lib/models/decoding/decoder_weights.h"
#include "tests/models/checkpoint/written_checkpoint.h"

namespace roofbench::models {
namespace {

using nlohmann::json;

// The contents of a checkpoint folder.
struct Parts {
  json config = TinyConfig();
  json header = PackTensors(TinyTensors()).first;
  std::string data = PackTensors(TinyTensors()).second;
  std::string file = {};   // in place of header and data
  std::string index = {};  // of several files, if any
  bool has_config = true;
  bool has_file = true;
};

absl::StatusOr<Checkpoint> Write(const Parts& parts, const TemporaryFolder& folder) {
  if (parts.has_config) folder.Write("config.json", parts.config.dump());
  if (parts.has_file) {
    folder.Write("model.safetensors",
                 parts.file.empty() ? SafetensorsText(parts.header.dump(), parts.data) : parts.file);
  }
  if (!parts.index.empty()) folder.Write("model.safetensors.index.json", parts.index);
  return Checkpoint::Open(folder.path());
}

constexpr char kNorm[] = "model.norm.weight";
constexpr char kQuery[] = "model.layers.0.self_attn.q_proj.weight";

// The tensor that lies last, so that its end can be moved.
constexpr char kLast[] = "model.layers.0.mlp.down_proj.weight";

struct Broken {
  const char* name;
  std::function<void(Parts&)> damage;
  const char* error;
};

std::string Deep(int depth) { return std::string(static_cast<std::size_t>(depth), '['); }

const Broken kBroken[] = {
    {"NoConfig", [](Parts& p) { p.has_config = false; }, "config.json"},
    {"ConfigIsNoJson", [](Parts& p) { p.config = "x"; }, "config.json: it is not a JSON object"},
    {"ConfigLacksASize", [](Parts& p) { p.config.erase("hidden_size"); }, "hidden_size must be a whole number"},
    {"NegativeLayers", [](Parts& p) { p.config["num_hidden_layers"] = -1; }, "num_hidden_layers must be"},
    {"SizeIsText", [](Parts& p) { p.config["vocab_size"] = "10"; }, "vocab_size must be"},
    {"HugeVocabulary", [](Parts& p) { p.config["vocab_size"] = 1e15; }, "vocab_size must be"},
    {"OddGroups", [](Parts& p) { p.config["num_key_value_heads"] = 3; }, "multiple of num_key_value_heads"},
    {"AnotherModel", [](Parts& p) { p.config["model_type"] = "gpt2"; }, "not supported: models of the type 'gpt2'"},
    {"Biases", [](Parts& p) { p.config["attention_bias"] = true; }, "not supported: a model with attention_bias"},
    {"AnUnknownKey", [](Parts& p) { p.config["final_logit_softcapping"] = 30.0; },
     "not supported: a model with final_logit_softcapping, whose effect is not known (set it to null if the logits do "
     "not depend on it)"},
    {"PairsThatAreNotTurned", [](Parts& p) { p.config["partial_rotary_factor"] = 0.5; },
     "not supported: a model with partial_rotary_factor"},
    {"AnUnknownKeyOfPositions",
     [](Parts& p) {
       p.config["rope_parameters"] = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
     },
     "not supported: a model with partial_rotary_factor of its positions"},
    {"AWindowThatLlamaHasNot", [](Parts& p) { p.config["sliding_window"] = 4; }, "a model with sliding_window"},
    {"AWindowOfText",
     [](Parts& p) {
       p.config.update({{"model_type", "mistral"}, {"sliding_window", "4"}});
     },
     "sliding_window must be a whole number"},
    {"AWindowOfNothing",
     [](Parts& p) {
       p.config.update({{"model_type", "mistral"}, {"sliding_window", -1}});
     },
     "sliding_window must be a whole number"},
    {"AWindowFromNoNumberOn",
     [](Parts& p) {
       p.config.update({{"model_type", "qwen3"}, {"use_sliding_window", true}, {"max_window_layers", "all"}});
     },
     "max_window_layers must be a number of layers"},
    {"AWindowOfLateLayersThatLlamaHasNot", [](Parts& p) { p.config["use_sliding_window"] = true; },
     "a model with use_sliding_window, whose effect"},
    {"MorePositionsThanNumbers", [](Parts& p) { p.config["max_position_embeddings"] = 1e16; },
     "max_position_embeddings must be a whole number from 1 to 9007199254740992"},
    {"LayersOfOtherAttention", [](Parts& p) { p.config["layer_types"] = {"sliding_attention"}; },
     "not supported: a model with layer_types other than full_attention"},
    {"LayerTypesAreNoList", [](Parts& p) { p.config["layer_types"] = 1; }, "layer_types must be a list"},
    {"HeadsThatNobodyImplies",
     [](Parts& p) {
       p.config["model_type"] = "mistral";
       p.config.erase("num_key_value_heads");
     },
     "num_key_value_heads must be a whole number"},
    {"AnotherGateOfGemma2",
     [](Parts& p) {
       p.config.update({{"model_type", "gemma2"}, {"hidden_activation", "gelu"}});
     },
     "the activation 'gelu' (gelu_pytorch_tanh is)"},
    {"ABoundBelowZero",
     [](Parts& p) {
       p.config.update({{"model_type", "gemma2"}, {"attn_logit_softcapping", -1}});
     },
     "attn_logit_softcapping must be a number above 0, or null"},
    {"ABoundOfNothing",
     [](Parts& p) {
       p.config.update({{"model_type", "gemma2"}, {"final_logit_softcapping", 0}});
     },
     "final_logit_softcapping must be a number above 0, or null"},
    {"ABoundThatIsNoNumber",
     [](Parts& p) {
       p.config.update({{"model_type", "gemma2"}, {"final_logit_softcapping", "30"}});
     },
     "final_logit_softcapping must be a number above 0, or null"},
    {"AScaleOfNothing",
     [](Parts& p) {
       p.config.update({{"model_type", "gemma2"}, {"query_pre_attn_scalar", 0}});
     },
     "query_pre_attn_scalar must be a number above 0"},
    {"ABoundThatLlamaHasNot", [](Parts& p) { p.config["attn_logit_softcapping"] = 50; },
     "a model with attn_logit_softcapping, whose effect"},
    {"NoNormOfOutputs", [](Parts& p) { p.config["model_type"] = "gemma2"; }, "feedforward_layernorm"},
    {"NoBias", [](Parts& p) { p.config["model_type"] = "qwen2"; },
     "lacks the tensor model.layers.0.self_attn.k_proj.bias"},
    {"NoNormsOfHeads",
     [](Parts& p) {
       p.config.update({{"model_type", "qwen3"}, {"head_dim", 4}});
     },
     "lacks the tensor model.layers.0.self_attn.k_norm.weight"},
    {"UnknownPositions",
     [](Parts& p) {
       p.config["rope_parameters"] = {{"rope_type", "yarn"}};
     },
     "rope_type 'yarn'"},
    {"PositionsOfNoText",
     [](Parts& p) {
       p.config["rope_parameters"] = {{"rope_type", 5}};
     },
     "rope_type '5'"},
    {"UnknownPositionsWithKeysOfTheirOwn",
     [](Parts& p) {
       p.config["rope_scaling"] = {{"type", "yarn"}, {"beta_fast", 32}};
     },
     "rope_type 'yarn'"},
    {"BaseOfText", [](Parts& p) { p.config["rope_theta"] = "1e6"; }, "rope_theta must be a number above 1"},
    {"BaseOfPositionsThatIsNoNumber",
     [](Parts& p) {
       p.config["rope_parameters"] = {{"rope_theta", true}};
     },
     "rope_theta must be a number above 1"},
    {"EpsilonOfText", [](Parts& p) { p.config["rms_norm_eps"] = "1e-5"; }, "rms_norm_eps must be a number above 0"},
    {"ActivationOfNoText", [](Parts& p) { p.config["hidden_act"] = 1; }, "not supported: the activation '1'"},
    {"TokensThatSeeLaterOnes", [](Parts& p) { p.config["is_causal"] = false; },
     "not supported: a model with is_causal: false"},
    {"StretchedByNothing",
     [](Parts& p) {
       p.config["rope_parameters"] = {{"rope_type", "llama3"}};
     },
     "rope_parameters needs factor"},
    {"ManyLayers", [](Parts& p) { p.config["num_hidden_layers"] = 4'000'000; }, "fewer than its"},
    {"NoFile", [](Parts& p) { p.has_file = false; }, "model.safetensors"},
    {"EmptyFile", [](Parts& p) { p.file = std::string(3, '\0'); }, "too short"},
    {"HeaderLongerThanFile", [](Parts& p) { p.file = std::string("\xff\x00\x00\x00\x00\x00\x00\x00{}", 10); },
     "its header claims 255 bytes"},
    {"HeaderOfExabytes", [](Parts& p) { p.file = std::string(8, '\xff') + "{}"; }, "its header claims"},
    {"HeaderIsNoJson", [](Parts& p) { p.file = SafetensorsText("{\"a\":", ""); }, "not valid JSON"},
    {"HeaderIsAList", [](Parts& p) { p.file = SafetensorsText("[1]", ""); }, "not a JSON object"},
    {"HeaderIsDeep", [](Parts& p) { p.file = SafetensorsText("{\"a\":" + Deep(100'000), ""); }, "nested too deeply"},
    {"ATensorTwice", [](Parts& p) { p.file = SafetensorsText(R"({"a":{},"a":{}})", ""); }, "names 'a' twice"},
    {"NoDtype", [](Parts& p) { p.header[kNorm].erase("dtype"); }, "norm.weight has no dtype"},
    {"UnknownDtype", [](Parts& p) { p.header[kNorm]["dtype"] = "F3"; }, "dtype 'F3'"},
    {"WholeNumbers", [](Parts& p) { p.header[kNorm]["dtype"] = "I32"; }, "holds Int instead of floating point"},
    {"NegativeShape", [](Parts& p) { p.header[kNorm]["shape"] = {-8}; }, "no shape of whole numbers"},
    {"OverflowingShape",
     [](Parts& p) {
       p.header[kNorm]["shape"] = {1LL << 40, 1LL << 40};
     },
     "do not fit its shape"},
    {"ShapeUnlikeBytes", [](Parts& p) { p.header[kNorm]["shape"] = {9}; }, "32 bytes, which do not fit its shape"},
    {"OneOffset", [](Parts& p) { p.header[kNorm]["data_offsets"] = {0}; }, "no two data_offsets"},
    {"ReversedOffsets",
     [](Parts& p) {
       p.header[kNorm]["data_offsets"] = {64, 32};
     },
     "lies at bytes 64 to 32"},
    {"Truncated", [](Parts& p) { p.data.resize(p.data.size() - 1); }, "the file is cut off"},
    {"BytesBehind", [](Parts& p) { p.data += "x"; }, "bytes behind the tensors"},
    {"Overlap",
     [](Parts& p) {
       p.header[kNorm]["data_offsets"] = {0, 32};
     },
     "tensors overlap"},
    {"Hole", [](Parts& p) { p.header.erase(kNorm); }, "bytes between tensors"},
    {"MissingTensor",
     [](Parts& p) {
       p.header.erase(kLast);
       p.data.resize(p.data.size() - 4 * 8 * 12);
     },
     "lacks the tensor model.layers.0.mlp.down_proj.weight"},
    {"WrongShape",
     [](Parts& p) {
       p.header[kQuery]["shape"] = {4, 16};
     },
     "q_proj.weight is [4, 16] where config.json"},
    {"IndexIsNoJson", [](Parts& p) { p.index = "{"; }, "index.json: it is not valid JSON"},
    {"IndexWithoutMap", [](Parts& p) { p.index = "{}"; }, "no weight_map"},
    {"IndexLeadsOut", [](Parts& p) { p.index = R"({"weight_map":{"a":"../../etc/passwd"}})"; }, "same folder"},
    {"IndexNamesNoFile", [](Parts& p) { p.index = R"({"weight_map":{"a":"b.safetensors"}})"; }, "b.safetensors"},
};

at::Tensor Whole(const Checkpoint& checkpoint, const std::string& name) {
  std::vector<at::Tensor> blocks;
  const absl::Status status = checkpoint.Read(name, [&](int64_t, const at::Tensor& rows) { blocks.push_back(rows); });
  EXPECT_TRUE(status.ok()) << status;
  return at::cat(blocks);
}

TEST(Checkpoint, WhatIsWholeIsRead) {
  const TemporaryFolder folder;
  Parts parts;
  const float value = 2.5;
  std::memcpy(parts.data.data(), &value, sizeof(value));
  const auto checkpoint = Write(parts, folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->config().shape.base.KvWidth(), 4);
  const at::Tensor embedding = Whole(*checkpoint, "model.embed_tokens.weight");
  EXPECT_EQ(embedding.sizes(), (at::IntArrayRef{10, 8}));
  EXPECT_EQ(embedding.data_ptr<float>()[0], 2.5F);
}

TEST(Checkpoint, StopIdsOfTheGenerationsConfigurationGoFirst) {
  const TemporaryFolder folder;
  Parts parts;
  parts.config["eos_token_id"] = 3;
  EXPECT_THAT(Write(parts, folder)->config().stop_ids, testing::ElementsAre(3));
  folder.Write("generation_config.json", R"({"eos_token_id":[4,5]})");
  EXPECT_THAT(Checkpoint::Open(folder.path())->config().stop_ids, testing::ElementsAre(4, 5));
  folder.Write("generation_config.json", R"({"do_sample":true})");
  EXPECT_THAT(Checkpoint::Open(folder.path())->config().stop_ids, testing::ElementsAre(3));
  folder.Write("generation_config.json", "[4]");
  EXPECT_THAT(std::string(Checkpoint::Open(folder.path()).status().message()),
              testing::HasSubstr("generation_config.json: it "));
}

// The configuration ties the weights.
TEST(Checkpoint, AStoredHeadIsTakenWhereItIsNotTheEmbedding) {
  for (const bool differs : {false, true}) {
    const TemporaryFolder folder;
    auto tensors = TinyTensors();
    tensors.push_back({"lm_head.weight", {10, 8}});
    auto [header, data] = PackTensors(tensors);
    const float value = 2.5;
    if (differs) std::memcpy(data.data() + data.size() - sizeof(value), &value, sizeof(value));
    folder.Write("config.json", TinyConfig().dump());
    folder.Write("model.safetensors", SafetensorsText(header.dump(), data));
    const auto checkpoint = Checkpoint::Open(folder.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_EQ(checkpoint->config().shape.base.tied_head, !differs);
    EXPECT_EQ(checkpoint->notes().size(), differs ? 1U : 0U);
  }
}

TEST(Checkpoint, AStoredHeadHasTheShapeOfTheEmbedding) {
  const TemporaryFolder folder;
  auto tensors = TinyTensors();
  tensors.push_back({"lm_head.weight", {9, 8}});
  const auto [header, data] = PackTensors(tensors);
  folder.Write("config.json", TinyConfig().dump());
  folder.Write("model.safetensors", SafetensorsText(header.dump(), data));
  EXPECT_THAT(std::string(Checkpoint::Open(folder.path()).status().message()),
              testing::HasSubstr("the tensor lm_head.weight is [9, 8]"));
}

TEST(Checkpoint, SeveralFilesAreOne) {
  const TemporaryFolder folder;
  auto tensors = TinyTensors();
  const auto [second, second_data] = PackTensors({tensors.back()});
  tensors.pop_back();
  const auto [first, first_data] = PackTensors(tensors);
  folder.Write("config.json", TinyConfig().dump());
  folder.Write("1.safetensors", SafetensorsText(first.dump(), first_data));
  folder.Write("2.safetensors", SafetensorsText(second.dump(), second_data));
  folder.Write("model.safetensors.index.json", R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(Whole(*checkpoint, kLast).sizes(), (at::IntArrayRef{8, 12}));
  folder.Write("2.safetensors", SafetensorsText(first.dump(), first_data));
  EXPECT_THAT(std::string(Checkpoint::Open(folder.path()).status().message()), testing::HasSubstr("two files hold"));
}

// 64 MiB at a time, in multiples of the 16 rows that a tile of int4 has.
TEST(Checkpoint, ALargeTensorIsReadInBlocksOfItsRows) {
  const TemporaryFolder folder;
  constexpr int64_t kVocab = 2'200'003;  // rows of 32 bytes: a block and a part
  Parts parts;
  parts.config["vocab_size"] = kVocab;
  auto tensors = TinyTensors();
  tensors.front().second.front() = kVocab;
  std::tie(parts.header, parts.data) = PackTensors(tensors);
  constexpr int64_t kMarked = 2'097'152 + 5;
  const float mark = 7;
  const auto begin = parts.header["model.embed_tokens.weight"]["data_offsets"][0].get<std::size_t>();
  std::memcpy(parts.data.data() + begin + kMarked * 32, &mark, sizeof(mark));
  const auto checkpoint = Write(parts, folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::vector<std::pair<int64_t, int64_t>> blocks;
  ASSERT_TRUE(checkpoint
                  ->Read("model.embed_tokens.weight",
                         [&](int64_t first, const at::Tensor& rows) {
                           blocks.emplace_back(first, rows.size(0));
                           EXPECT_EQ(rows[kMarked % 2'097'152][0].item<float>(), first > 0 ? mark : 0);
                         })
                  .ok());
  EXPECT_THAT(blocks, testing::ElementsAre(testing::Pair(0, 2'097'152), testing::Pair(2'097'152, kVocab - 2'097'152)));
}

// A mapped file that becomes shorter ends the process that looks at it (SIGBUS).
TEST(Checkpoint, AFileThatBecomesShorterIsAnError) {
  const TemporaryFolder folder;
  const auto checkpoint = Write({}, folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const std::string path = folder.path() + "/model.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  for (const workload::WeightFormat format : workload::kWeightFormats) {
    Storage storage = Storage::Default(format);
    const auto weights = LoadWeights(*checkpoint, storage);
    ASSERT_FALSE(weights.ok());
    if (absl::IsUnimplemented(weights.status())) continue;  // int4 wants larger shapes
    EXPECT_EQ(weights.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(weights.status().message()),
                testing::AllOf(testing::HasSubstr(path), testing::HasSubstr("became shorter while it was read")));
  }
}

TEST(Checkpoint, WeightsThatAreNoNumbersAreNotStored) {
  const float values[] = {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()};
  for (const float value : values) {
    const TemporaryFolder folder;
    Parts parts;
    const auto begin = parts.header[kQuery]["data_offsets"][0].get<std::size_t>();
    std::memcpy(parts.data.data() + begin + 12, &value, sizeof(value));
    const auto checkpoint = Write(parts, folder);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    for (const auto format : {workload::WeightFormat::kFp32, workload::WeightFormat::kInt8}) {
      EXPECT_THAT(std::string(LoadWeights(*checkpoint, Storage::Default(format)).status().message()),
                  testing::HasSubstr(std::string(kQuery) + " holds weights that are not finite"));
    }
  }
}

// Opening a pipe waits for its writer; reading a device may never end.
TEST(Checkpoint, WhatIsNoFileIsRefusedAtOnce) {
  const struct {
    const char* said;
    std::function<void(const std::string&)> put;
  } kinds[] = {
      {"is a pipe and not a regular file", [](const std::string& path) { mkfifo(path.c_str(), 0600); }},
      {"is a folder and not a regular file", [](const std::string& path) { mkdir(path.c_str(), 0700); }},
      {"is a device and not a regular file",
       [](const std::string& path) { std::filesystem::create_symlink("/dev/zero", path); }},
  };
  for (const auto& [said, put] : kinds) {
    for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
      const TemporaryFolder folder;
      const std::string path = folder.path() + "/" + name;
      ASSERT_TRUE(Write({}, folder).ok());
      unlink(path.c_str());
      put(path);
      const absl::Status status = Checkpoint::Open(folder.path()).status();
      EXPECT_THAT(std::string(status.message()), testing::AllOf(testing::HasSubstr(path), testing::HasSubstr(said)));
    }
  }
}

TEST(Checkpoint, AnEndlessConfigurationIsRefused) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Write({}, folder).ok());
  std::filesystem::resize_file(folder.path() + "/config.json", uint64_t{1} << 36);  // zeros that take no room
  EXPECT_THAT(std::string(Checkpoint::Open(folder.path()).status().message()), testing::HasSubstr("has 64.0 GiB"));
}

class BrokenCheckpoint : public testing::TestWithParam<Broken> {};

TEST_P(BrokenCheckpoint, IsRefusedWithTheReason) {
  const TemporaryFolder folder;
  Parts parts;
  GetParam().damage(parts);
  const auto checkpoint = Write(parts, folder);
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_THAT(std::string(checkpoint.status().message()), testing::HasSubstr(GetParam().error));
  EXPECT_THAT(std::string(checkpoint.status().message()), testing::HasSubstr(folder.path()));
}

INSTANTIATE_TEST_SUITE_P(Each, BrokenCheckpoint, testing::ValuesIn(kBroken),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace roofbench::models
