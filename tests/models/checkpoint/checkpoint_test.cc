// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/checkpoint.h"

#include <ATen/ops/cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

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

// One of the damages below.
struct Broken {
  const char* error;
  json config = json::object();  // merged into config.json
  json norm = json::object();    // merged into the header of a norm, [8] in fp32, bytes 320 to 352
  std::string file = {};         // the whole safetensors file
  std::string index = {};        // of several files
  std::function<void(Parts&)> damage = [](Parts&) {};
};

std::string Deep(int depth) { return std::string(static_cast<std::size_t>(depth), '['); }

// decoder_config_test.cc has the errors of config.json itself.
const Broken kBroken[] = {
    {.error = "config.json", .damage = [](Parts& p) { p.has_config = false; }},
    {.error = "config.json: it is not a JSON object", .damage = [](Parts& p) { p.config = "x"; }},
    {.error = "config.json: vocab_size must be", .config = {{"vocab_size", "10"}}},
    {.error = "config.json: not supported: models of the type 'gpt2'", .config = {{"model_type", "gpt2"}}},
    {.error = "feedforward_layernorm", .config = {{"model_type", "gemma2"}}},
    {.error = "lacks the tensor model.layers.0.self_attn.k_proj.bias", .config = {{"model_type", "qwen2"}}},
    {.error = "lacks the tensor model.layers.0.self_attn.k_norm.weight",
     .config = {{"model_type", "qwen3"}, {"head_dim", 4}}},
    {.error = "fewer than its", .config = {{"num_hidden_layers", 4'000'000}}},
    {.error = "model.safetensors", .damage = [](Parts& p) { p.has_file = false; }},
    {.error = "too short", .file = std::string(3, '\0')},
    {.error = "its header claims 255 bytes", .file = std::string("\xff\x00\x00\x00\x00\x00\x00\x00{}", 10)},
    {.error = "its header claims", .file = std::string(8, '\xff') + "{}"},
    {.error = "not valid JSON", .file = SafetensorsText("{\"a\":", "")},
    {.error = "not a JSON object", .file = SafetensorsText("[1]", "")},
    {.error = "nested too deeply", .file = SafetensorsText("{\"a\":" + Deep(100'000), "")},
    {.error = "names 'a' twice", .file = SafetensorsText(R"({"a":{},"a":{}})", "")},
    {.error = "norm.weight has no dtype", .norm = {{"dtype", nullptr}}},
    {.error = "holds F3 instead of floating point", .norm = {{"dtype", "F3"}}},
    {.error = "holds I32 instead of floating point", .norm = {{"dtype", "I32"}}},
    {.error = "holds F8_E4M3 instead of floating point", .norm = {{"dtype", "F8_E4M3"}}},
    {.error = "norm.weight needs a shape of whole numbers", .norm = {{"shape", {-8}}}},
    {.error = "do not fit its shape", .norm = {{"shape", {1LL << 40, 1LL << 40}}}},
    {.error = "32 bytes, which do not fit its shape", .norm = {{"shape", {9}}}},
    {.error = "norm.weight needs two data_offsets", .norm = {{"data_offsets", {0}}}},
    {.error = "lies at bytes 64 to 32", .norm = {{"data_offsets", {64, 32}}}},
    {.error = "tensors overlap", .norm = {{"data_offsets", {0, 32}}}},
    {.error = "the file is cut off", .damage = [](Parts& p) { p.data.pop_back(); }},
    {.error = "bytes after the last tensor", .damage = [](Parts& p) { p.data += "x"; }},
    {.error = "bytes between tensors", .damage = [](Parts& p) { p.header.erase(kNorm); }},
    {.error = "lacks the tensor model.layers.0.mlp.down_proj.weight",
     .damage =
         [](Parts& p) {
           p.header.erase(kLast);
           p.data.resize(p.data.size() - 4 * 8 * 12);
         }},
    {.error = "q_proj.weight is [4, 16] where config.json",
     .damage =
         [](Parts& p) {
           p.header[kQuery]["shape"] = std::vector{4, 16};
         }},
    {.error = "index.json: it is not valid JSON", .index = "{"},
    {.error = "no weight_map", .index = "{}"},
    {.error = "same folder", .index = R"({"weight_map":{"a":"../../etc/passwd"}})"},
    {.error = "b.safetensors", .index = R"({"weight_map":{"a":"b.safetensors"}})"},
};

TEST(Checkpoint, ABrokenOneIsRefusedWithTheReason) {
  for (const Broken& broken : kBroken) {
    const TemporaryFolder folder;
    Parts parts{.file = broken.file, .index = broken.index};
    parts.config.merge_patch(broken.config);
    parts.header[kNorm].merge_patch(broken.norm);
    broken.damage(parts);
    const absl::Status status = Write(parts, folder).status();
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(testing::HasSubstr(broken.error), testing::HasSubstr(folder.path())));
  }
}

at::Tensor Whole(const Checkpoint& checkpoint, const std::string& name) {
  std::vector<at::Tensor> blocks;
  const absl::Status status = checkpoint.Read(name, [&](int64_t, const at::Tensor& rows) { blocks.push_back(rows); });
  EXPECT_TRUE(status.ok()) << status;
  return at::cat(blocks);
}

TEST(Checkpoint, IsRead) {
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

TEST(Checkpoint, StopIdsOfGenerationConfigTakePrecedence) {
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
TEST(Checkpoint, AStoredHeadIsUsedIfItDiffersFromTheEmbedding) {
  const float value = 2.5;
  const auto open = [&](int64_t rows, bool differs) {
    const TemporaryFolder folder;
    auto tensors = TinyTensors();
    tensors.push_back({"lm_head.weight", {rows, 8}});
    Parts parts;
    std::tie(parts.header, parts.data) = PackTensors(tensors);
    if (differs) std::memcpy(parts.data.data() + parts.data.size() - sizeof(value), &value, sizeof(value));
    return Write(parts, folder);
  };
  for (const bool differs : {false, true}) {
    const auto checkpoint = open(10, differs);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_EQ(checkpoint->config().shape.base.tied_head, !differs);
    EXPECT_EQ(checkpoint->notes().size(), differs ? 1U : 0U);
  }
  EXPECT_THAT(std::string(open(9, true).status().message()), testing::HasSubstr("the tensor lm_head.weight is [9, 8]"));
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

TEST(Checkpoint, TheIndexSaysWhichCopyOfATensorIsValid) {
  const TemporaryFolder folder;
  const auto tensors = TinyTensors();
  const auto [all, data] = PackTensors(tensors);
  const auto [stale, old_data] = PackTensors({tensors.back()});
  nlohmann::json index = {{"weight_map", {{"of another model", "2.safetensors"}}}};
  for (const auto& [name, shape] : tensors) index["weight_map"][name] = "1.safetensors";
  folder.Write("config.json", TinyConfig().dump());
  folder.Write("1.safetensors", SafetensorsText(all.dump(), data));
  const float old = 7;
  std::string marked = old_data;
  std::memcpy(marked.data(), &old, sizeof(old));
  folder.Write("2.safetensors", SafetensorsText(stale.dump(), marked));
  folder.Write("model.safetensors.index.json", index.dump());
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(Whole(*checkpoint, kLast).abs().max().item<float>(), 0);
  index["weight_map"][kLast] = "2.safetensors";
  folder.Write("model.safetensors.index.json", index.dump());
  const auto other = Checkpoint::Open(folder.path());
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(Whole(*other, kLast)[0][0].item<float>(), old);
}

TEST(Checkpoint, TypesThatNoLayerNeedsAreOfAnyKind) {
  for (const char* dtype : {"U16", "U64", "C64", "F8_E5M2"}) {
    const TemporaryFolder folder;
    Parts parts;
    parts.header["buffer"] = {
        {"dtype", dtype}, {"shape", {3}}, {"data_offsets", {parts.data.size(), parts.data.size() + 8}}};
    parts.data += std::string(8, '\0');
    const auto checkpoint = Write(parts, folder);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  }
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

TEST(Checkpoint, NonFiniteWeightsAreRefused) {
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
TEST(Checkpoint, AnythingButARegularFileIsRefusedAtOnce) {
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

}  // namespace
}  // namespace roofbench::models
