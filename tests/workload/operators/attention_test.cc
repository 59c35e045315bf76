// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/attention.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

// The pairs that a causal mask leaves, counted one by one.
double Counted(int64_t queries, int64_t keys) {
  double pairs = 0;
  for (int64_t query = 0; query < queries; ++query) {
    for (int64_t key = 0; key < keys; ++key) pairs += key <= query + keys - queries ? 1 : 0;
  }
  return pairs;
}

TEST(Attention, AMaskHidesLaterKeys) {
  for (const auto& [queries, keys] : {std::pair{1, 1}, {5, 5}, {1, 7}, {3, 7}, {7, 3}}) {
    const Attention work{.batch = 2, .heads = 3, .queries = 1.0 * queries, .keys = 1.0 * keys, .causal = true};
    EXPECT_EQ(work.SeenScores(), 6 * Counted(queries, keys)) << queries << " queries, " << keys << " keys";
    EXPECT_EQ(work.AllScores(), 6 * queries * keys);
  }
}

TEST(Attention, FusedTouchesOperandsAndResultAlone) {
  const Attention work{
      .heads = 4, .kv_heads = 2, .queries = 8, .keys = 8, .head_dim = 16, .causal = true, .dtype = Dtype::kBf16};
  const Cost cost = work.FusedCost();
  EXPECT_EQ(cost.Flops(Dtype::kBf16), 4 * 16 * 4 * 36) << "36 pairs of each head";
  EXPECT_EQ(cost.Flops(Dtype::kFp32), 5 * 4 * 36);
  EXPECT_EQ(cost.BytesRead(), 2 * (4 + 2 + 2) * 8 * 16) << "keys and values once for two heads";
  EXPECT_EQ(cost.BytesWritten(), 2 * 4 * 8 * 16);
  EXPECT_EQ(cost.resident_bytes, cost.Bytes());
}

TEST(Attention, AnInt8CacheHasFactorsAndBlocksATable) {
  const Attention work{.batch = 2,
                       .heads = 8,
                       .kv_heads = 2,
                       .queries = 1,
                       .keys = 100,
                       .head_dim = 64,
                       .dtype = Dtype::kInt8,
                       .page = 16};
  const double query = 2 * 8 * 64 * 4;
  EXPECT_EQ(work.FusedCost().BytesRead(), query + 2 * 2 * 2 * 100 * (64 + 4) + 2 * 7 * 4);
  EXPECT_EQ(work.FusedCost().BytesWritten(), query);
  EXPECT_EQ(work.FusedCost().Flops(Dtype::kInt8), 4 * 64 * 2 * 8 * 100);
}

TEST(Attention, NaiveWritesTheWholeSquareTwice) {
  const Attention work{.batch = 3, .heads = 2, .kv_heads = 2, .queries = 8, .keys = 8, .head_dim = 16, .causal = true};
  const double square = 3 * 2 * 64 * 4;
  const double vectors = 3 * 2 * 8 * 16 * 4;
  const Cost cost = work.NaiveCost();
  EXPECT_EQ(cost.OfComponent("scores").Bytes(), 2 * vectors + square);
  EXPECT_EQ(cost.OfComponent("softmax").Bytes(), 2 * square);
  EXPECT_EQ(cost.OfComponent("weighted_sum").Bytes(), 2 * vectors + square);
  EXPECT_EQ(cost.Flops(), (4 * 16 + 5) * square / 4) << "hidden scores, too";
  EXPECT_EQ(cost.resident_bytes, 5 * vectors + 2 * square + 64) << "y before and after, and the mask";
}

TEST(Attention, FusedBackwardRecomputesScores) {
  const Attention work{
      .heads = 4, .kv_heads = 2, .queries = 8, .keys = 8, .head_dim = 16, .causal = true, .dtype = Dtype::kBf16};
  const Cost cost = work.FusedBackwardCost();
  EXPECT_EQ(cost.Flops(Dtype::kBf16), 10 * 16 * 4 * 36) << "five products of 36 pairs of each head";
  EXPECT_EQ(cost.Flops(Dtype::kFp32), 4 * 4 * 36 + 2 * 16 * 4 * 8) << "and dy · y";
  EXPECT_EQ(cost.BytesRead(), 2 * (3 * 4 + 2 * 2) * 8 * 16 + 4 * 4 * 8) << "q, y and dy, k and v, a number a query";
  EXPECT_EQ(cost.BytesWritten(), 2 * (4 + 2 * 2) * 8 * 16);
  EXPECT_EQ(cost.resident_bytes, cost.Bytes());
}

TEST(Attention, CompiledKeepsExponentialsInFp32) {
  Attention work{.batch = 3, .heads = 2, .kv_heads = 2, .queries = 8, .keys = 8, .head_dim = 16, .causal = true};
  const double scores = 3 * 2 * 64;
  const double vector = 3 * 2 * 8 * 16;
  const double of_rows = 2 * 3 * 2 * 8 * 4;
  EXPECT_EQ(work.CompiledCost().resident_bytes, 5 * vector * 4 + scores * 4 + of_rows);
  EXPECT_EQ(work.CompiledCost().Bytes(), work.NaiveCost().Bytes());
  work.dtype = Dtype::kBf16;
  EXPECT_EQ(work.CompiledCost().resident_bytes, 5 * vector * 2 + scores * (2 + 4 + 2) + of_rows);
}

TEST(Attention, NaiveBackwardGoesThroughThreeSquares) {
  const Attention work{.batch = 3, .heads = 2, .kv_heads = 2, .queries = 8, .keys = 8, .head_dim = 16, .causal = true};
  const double square = 3 * 2 * 64 * 4;
  const double vectors = 3 * 2 * 8 * 16 * 4;
  const Cost cost = work.NaiveBackwardCost();
  EXPECT_EQ(cost.OfComponent("weighted_sum").Bytes(), 2 * square + 3 * vectors) << "p, dy, v; dp, dv";
  EXPECT_EQ(cost.OfComponent("softmax").Bytes(), 3 * square);
  EXPECT_EQ(cost.OfComponent("scores").Bytes(), square + 4 * vectors) << "ds, q, k; dq, dk";
  EXPECT_EQ(cost.Flops(), (8 * 16 + 4) * square / 4);
  EXPECT_EQ(cost.resident_bytes, 8 * vectors + 2 * square + 64) << "short heads end with all gradients and two squares";
  const Attention longer{.heads = 2, .kv_heads = 2, .queries = 64, .keys = 64, .head_dim = 16};
  const double of_longer = 2 * 64 * 16 * 4;
  EXPECT_EQ(longer.NaiveBackwardCost().resident_bytes, 6 * of_longer + 3 * 2 * 64 * 64 * 4);
  EXPECT_EQ(work.NaiveForwardBackwardCost().resident_bytes, cost.resident_bytes + vectors) << "and y is recomputed";
  EXPECT_EQ(work.NaiveForwardBackwardCost().Bytes(), work.NaiveCost().Bytes() + cost.Bytes());
}

}  // namespace
}  // namespace roofbench::workload
