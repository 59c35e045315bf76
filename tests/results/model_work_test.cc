// SPDX-License-Identifier: Apache-2.0
#include "lib/results/model_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <utility>

#include "lib/workload/models/decoder.h"
#include "lib/workload/models/transformer.h"
#include "lib/workload/roofline.h"

namespace roofbench {
namespace {

using Json = nlohmann::ordered_json;

Json Find(const std::string& model, const std::string& step, const std::string& format) {
  for (const Json& row : DescribeModelWork()) {
    if (row["model"] == model && row["step"] == step && row["format"] == format) return row;
  }
  return nullptr;
}

double Sum(const Json& amounts) {
  double sum = 0;
  for (const Json& amount : amounts) sum += amount.get<double>();
  return sum;
}

TEST(ModelWork, AnyPublishedModelHasARowForEachStep) {
  std::set<std::string> models;
  for (const Json& row : DescribeModelWork()) models.insert(row["model"]);
  EXPECT_TRUE(models.contains("llama3_1b") && models.contains("small"));
  EXPECT_FALSE(models.contains("tiny_llama") || models.contains("llama3_1b_4th"));
  EXPECT_TRUE(Find("mixtral_8x7b", "training", "bf16").is_null()) << "no formula for a mixture's";
}

TEST(ModelWork, IsThatOfTheFormulas) {
  const workload::StoredDecoder stored = {.shape = workload::FindDecoderPreset("llama3_1b")->shape};
  const workload::Cost token = stored.DecodeCost(1, 512, 513);
  const Json row = Find("llama3_1b", "token", "bf16");
  ASSERT_EQ(row["parts"].size(), 1U);
  EXPECT_NEAR(Sum(row["parts"][0]["bytes"]), token.Bytes(), 1e-6 * token.Bytes());
  EXPECT_NEAR(Sum(row["parts"][0]["flops"]), token.Flops(), 1e-6 * token.Flops());
  EXPECT_NEAR(row["memory"].get<double>(), token.resident_bytes, 1);
  EXPECT_EQ(row["tokens"], 1);
}

TEST(ModelWork, AStepOfTrainingEndsWithItsOptimizer) {
  const Json row = Find("small", "training", "bf16");
  ASSERT_EQ(row["parts"].size(), 2U);
  EXPECT_EQ(row["tokens"], 512);
  const double parameters = workload::FindTransformer("small")->Parameters().Total();
  EXPECT_NEAR(Sum(row["parts"][1]["bytes"]), 28 * parameters, 1);
  EXPECT_GT(row["memory"].get<double>(), 16 * parameters);
}

TEST(Traffic, PairsEachWrittenByteWithAReadOne) {
  const workload::Traffic one =
      workload::TrafficOf({.bytes_read = 10, .bytes_written = 4, .bytes_updated = 3, .repeat = 7});
  EXPECT_EQ(one.read, 6);
  EXPECT_EQ(one.copy, 8);
  EXPECT_EQ(one.update, 6);
  EXPECT_EQ(one.write, 0);
}

}  // namespace
}  // namespace roofbench
