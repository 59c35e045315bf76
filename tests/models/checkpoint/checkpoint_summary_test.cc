// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/checkpoint_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lib/models/decoding/decoder_weights.h"
#include "lib/models/decoding/kv_cache.h"
#include "tests/models/checkpoint/written_checkpoint.h"

namespace roofbench::models {
namespace {

workload::Peaks SomePeaks() {
  workload::Peaks peaks = workload::UniformPeaks({}, 1e9);
  for (const workload::Dtype dtype : {workload::Dtype::kFp32, workload::Dtype::kBf16, workload::Dtype::kInt8}) {
    peaks.flops_per_second[workload::Index(dtype)] = 1e15;
  }
  return peaks;
}

Checkpoint Tiny(const TemporaryFolder& folder,
                const std::vector<std::pair<std::string, std::vector<int64_t>>>& more = {}) {
  auto tensors = TinyTensors();
  tensors.insert(tensors.end(), more.begin(), more.end());
  const auto [header, data] = PackTensors(tensors);
  folder.Write("config.json", TinyConfig().dump());
  folder.Write("model.safetensors", SafetensorsText(header.dump(), data));
  return *Checkpoint::Open(folder.path());
}

TEST(CheckpointSummary, CountsWhatIsStored) {
  const TemporaryFolder folder;
  const CheckpointSummary summary = Summarize(Tiny(folder, {{"model.rotary.inv_freq", {2}}}), SomePeaks());
  double parameters = 0;
  for (const TensorGroup& group : summary.tensors) parameters += group.parameters;
  EXPECT_EQ(summary.parameters, parameters);
  EXPECT_EQ(summary.stored_bytes, 4 * parameters);
  EXPECT_EQ(summary.unused_tensors, 1U);
  EXPECT_EQ(summary.context, 64) << "the model takes no more";
}

TEST(CheckpointSummary, PredictsTheBytesThatAreLoaded) {
  const TemporaryFolder folder;
  const Checkpoint checkpoint = Tiny(folder);
  int fitting = 0;
  for (const PrecisionSummary& row : Summarize(checkpoint, SomePeaks()).precisions) {
    const auto loaded = LoadWeights(checkpoint, Storage::Default(row.format));
    EXPECT_EQ(row.fits, loaded.status()) << Name(row.format);
    if (!loaded.ok()) continue;
    ++fitting;
    EXPECT_EQ(row.weight_bytes, static_cast<double>(loaded->nbytes())) << Name(row.format);
    EXPECT_GT(row.resident_bytes, row.weight_bytes + 64 * row.kv_bytes_per_token);
  }
  const CheckpointSummary summary = Summarize(checkpoint, SomePeaks());
  const KvCache cache(summary.config.shape.base, 1, 1, at::kFloat, /*in_8_bits=*/true);
  std::size_t bytes = 0;
  for (const at::Tensor& part : {cache.keys, cache.values, cache.key_scales, cache.value_scales})
    bytes += part.nbytes();
  EXPECT_EQ(summary.int8_kv_bytes_per_token, static_cast<double>(bytes));
  EXPECT_EQ(fitting, 6) << "all but int4, whose groups are longer than these rows";
}

TEST(CheckpointSummary, PredictsTokensByTheRoof) {
  const TemporaryFolder folder;
  const CheckpointSummary summary = Summarize(Tiny(folder), SomePeaks());
  const PrecisionSummary& fp32 = summary.precisions.front();
  // The weights but for the table, of which a token reads a row, in a head that is the table; a key and a value.
  const double read = 4 * (summary.active_parameters + 8) + fp32.kv_bytes_per_token;
  EXPECT_NEAR(1e9 / *fp32.first_tokens_per_second, read + 4 * 10, read * 0.05);
  EXPECT_LT(*fp32.last_tokens_per_second, *fp32.first_tokens_per_second);
  EXPECT_EQ(summary.precisions[2].format, workload::WeightFormat::kFp16);
  EXPECT_FALSE(summary.precisions[2].first_tokens_per_second) << "the roof of fp16 is unknown";
}

TEST(CheckpointSummary, PrintsATree) {
  const TemporaryFolder folder;
  const std::string text = SummaryText(Summarize(Tiny(folder), SomePeaks()));
  EXPECT_THAT(text,
              testing::HasSubstr("  model\n    embed_tokens\n      weight             [10, 8]            fp32  x 1"));
  EXPECT_THAT(text, testing::HasSubstr("    layers\n      *\n        input_layernorm\n"));
  EXPECT_THAT(text, testing::HasSubstr("int4      int4 in groups of 64 cannot hold rows of 8"));
  EXPECT_THAT(text, testing::HasSubstr("\nfp16 "));
  EXPECT_THAT(text, testing::HasSubstr("\nmemory: weights, keys and values of "));
  EXPECT_THAT(text, testing::HasSubstr("\nkeys and values in 8 bits: "));
}

TEST(CheckpointSummary, JsonHasTheSameFields) {
  const TemporaryFolder folder;
  const CheckpointSummary summary = Summarize(Tiny(folder), SomePeaks());
  const nlohmann::ordered_json json = SummaryJson(summary);
  EXPECT_EQ(json["parameters"].get<double>(), summary.parameters);
  EXPECT_EQ(json["roof_read"], 1e9);
  for (const char* count : {"parameters", "stored_bytes", "layers", "kv_heads", "vocab", "max_positions", "context",
                            "int8_kv_bytes_per_token"}) {
    EXPECT_TRUE(json[count].is_number_integer()) << count;
  }
  EXPECT_TRUE(json["tensors"][0]["bytes"].is_number_integer());
  for (const char* count : {"weight_bytes", "kv_bytes_per_token", "resident_bytes"}) {
    EXPECT_TRUE(json["precisions"][0][count].is_number_integer()) << count;
  }
  EXPECT_EQ(json["tensors"].size(), summary.tensors.size());
  EXPECT_TRUE(json["precisions"][2]["first_tokens_per_second"].is_null());
  EXPECT_THAT(json["precisions"][4]["unsupported"].get<std::string>(), testing::HasSubstr("cannot hold rows of 8"));
}

TEST(CheckpointSummary, ReportsAnUnknownRoof) {
  const TemporaryFolder folder;
  const Checkpoint checkpoint = Tiny(folder);
  EXPECT_EQ(ReadRoofText(Summarize(checkpoint, SomePeaks())), "read 1.00 GB/s");
  const CheckpointSummary unknown = Summarize(checkpoint, {});
  EXPECT_EQ(ReadRoofText(unknown), "reading not known");
  EXPECT_TRUE(SummaryJson(unknown)["roof_read"].is_null());
}

}  // namespace
}  // namespace roofbench::models
