// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/transformer.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

TEST(Transformer, ParametersByHand) {
  const Transformer tiny{.d_model = 8, .d_ff = 24, .layers = 2, .heads = 4, .vocab = 11};
  const TransformerParameters count = tiny.Parameters();
  EXPECT_EQ(count.embedding, 88);
  EXPECT_EQ(count.attention, 2 * 4 * 64);
  EXPECT_EQ(count.feed_forward, 2 * 3 * 8 * 24);
  EXPECT_EQ(count.norms, 5 * 8);
  EXPECT_EQ(count.head, 88);
  EXPECT_EQ(count.Total(), 88 + 512 + 1152 + 40 + 88);
  EXPECT_EQ(count.matmul, 512 + 1152 + 88);
}

TEST(Transformer, GroupedQueriesAndATiedHeadSaveParameters) {
  const Transformer tiny{
      .d_model = 8, .d_ff = 24, .layers = 2, .heads = 4, .vocab = 11, .kv_heads = 2, .tied_head = true};
  const TransformerParameters count = tiny.Parameters();
  EXPECT_EQ(count.attention, 2 * (2 * 64 + 2 * 8 * 4));
  EXPECT_EQ(count.head, 0);
  EXPECT_EQ(count.matmul, count.attention + count.feed_forward + 88);
}

// The sizes as they are published with the assignment, in millions.
TEST(Transformer, PresetsHaveTheirPublishedSizes) {
  const std::pair<const char*, double> kMillions[] = {{"small", 128.6}, {"medium", 423.2}, {"large", 969.4},
                                                      {"xl", 1998.2},   {"2.7B", 3406.8},  {"10B", 12832.7}};
  for (const auto& [name, millions] : kMillions) {
    const auto shape = FindTransformer(name);
    ASSERT_TRUE(shape) << name;
    EXPECT_NEAR(shape->Parameters().Total() / 1e6, millions, 1) << name;
    EXPECT_EQ(shape->HeadDim() * shape->heads, shape->d_model) << name;
  }
  EXPECT_FALSE(FindTransformer("huge"));
}

}  // namespace
}  // namespace roofbench::workload
