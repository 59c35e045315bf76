// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/workload/operators/elementwise.h"
#include "lib/workload/operators/rows.h"

namespace roofbench::workload {
namespace {

struct Row {
  const char* name;
  Operation operation;
  double read;
  double written;
  double updated;
  double flops;  // all in fp32, for any storage
};

TEST(Elementwise, OperationsCountByHand) {
  constexpr auto kBf16 = Dtype::kBf16;
  const Rope rope{.heads = 3, .tokens = 5, .head_dim = 8, .dtype = kBf16};
  const CrossEntropy loss{.rows = 3, .cols = 10, .dtype = kBf16};
  const Row rows[] = {
      {"adamw", AdamW{.parameters = 10}.Step(), 40, 0, 120, 140},
      {"gelu", Gelu{.elements = 10, .dtype = kBf16}.Forward(), 20, 20, 0, 80},
      {"gelu backward", Gelu{.elements = 10, .dtype = kBf16}.Backward(), 40, 20, 0, 80},
      {"silu_mul", SiluMul{.elements = 10, .dtype = kBf16}.Forward(), 40, 20, 0, 60},
      {"rope: x, and tables that heads share", rope.Forward(), 240 + 160, 240, 0, 360},
      {"embedding: rows and indices", Embedding{100, 3, 8, kBf16}.Forward(), 48 + 24, 48, 0, 0},
      {"softmax", Softmax{.rows = 3, .cols = 10, .dtype = kBf16}.Forward(), 60, 60, 0, 150},
      {"cross entropy: logits and targets", loss.Forward(), 60 + 24, 12, 0, 120},
      {"and the gradient adds one write", loss.ForwardBackward(), 60 + 24, 12 + 60, 0, 180},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(row.operation.bytes_read, row.read) << row.name;
    EXPECT_EQ(row.operation.bytes_written, row.written) << row.name;
    EXPECT_EQ(row.operation.bytes_updated, row.updated) << row.name;
    EXPECT_EQ(row.operation.flops[Index(Dtype::kFp32)], row.flops) << row.name;
    EXPECT_EQ(row.operation.Flops(), row.flops) << row.name;
  }
  EXPECT_EQ(rows[0].operation.Bytes(), 280) << "28 bytes an element";
}

TEST(Elementwise, CostsHoldOperandsAndResults) {
  constexpr auto kBf16 = Dtype::kBf16;
  EXPECT_EQ(AdamW{.parameters = 10}.StepCost().resident_bytes, 160);
  EXPECT_EQ((Gelu{10, kBf16}.ForwardCost().resident_bytes), 40);
  EXPECT_EQ((SiluMul{10, kBf16}.ForwardCost().resident_bytes), 60);
  EXPECT_EQ((Rope{3, 5, 8, kBf16}.ForwardCost().resident_bytes), 640);
  EXPECT_EQ((Embedding{100, 3, 8, kBf16}.ForwardCost().resident_bytes), 1600 + 24 + 48) << "the whole table";
  EXPECT_EQ((Softmax{3, 10, kBf16}.ForwardCost().resident_bytes), 120);
  EXPECT_EQ((CrossEntropy{3, 10, kBf16}.ForwardBackwardCost().resident_bytes), 84 + 72);
  EXPECT_EQ((Softmax{3, 10, kBf16}.ForwardCost().Flops(Dtype::kFp32)), 150);
  EXPECT_EQ((CrossEntropy{3, 10, kBf16}.ForwardCost().Flops(Dtype::kFp32)), 120);
  EXPECT_EQ((CrossEntropy{3, 10, kBf16}.ForwardBackwardCost().Flops(Dtype::kFp32)), 180);
}

TEST(Norm, ForwardReadsAndWritesEachElementOnce) {
  const Norm layer{.kind = NormKind::kLayer, .rows = 3, .cols = 10, .dtype = Dtype::kBf16};
  EXPECT_EQ(layer.Forward().bytes_read, 60 + 2 * 40) << "x, weight and bias";
  EXPECT_EQ(layer.Forward().bytes_written, 60);
  EXPECT_EQ(layer.ForwardCost().Flops(Dtype::kFp32), 8 * 30) << "arithmetic is in fp32";
  const Norm rms{.kind = NormKind::kRms, .rows = 3, .cols = 10, .dtype = Dtype::kFp32};
  EXPECT_EQ(rms.Forward().bytes_read, 120 + 40) << "x and weight";
  EXPECT_EQ(rms.ForwardCost().resident_bytes, 120 + 40 + 120);
}

// About three halves of the forward traffic: x and dy in, dx out.
TEST(Norm, BackwardReadsTwoAndWritesOne) {
  const Norm layer{.kind = NormKind::kLayer, .rows = 3, .cols = 10, .dtype = Dtype::kFp32};
  EXPECT_EQ(layer.Backward().bytes_read, 2 * 120 + 40 + 2 * 12);
  EXPECT_EQ(layer.Backward().bytes_written, 120 + 2 * 40);
  const Norm rms{.kind = NormKind::kRms, .rows = 3, .cols = 10, .dtype = Dtype::kFp32};
  EXPECT_EQ(rms.Backward().bytes_read, 2 * 120 + 40 + 12);
  EXPECT_EQ(rms.Backward().bytes_written, 120 + 40);
  EXPECT_EQ(rms.BackwardCost().Flops(), 2 * 4 * 30);
}

// Compared with the peaks of LibTorch's allocations: 512 rows of 1024, in 2-byte elements of x (2026-11-23).
TEST(Norm, MemoryOfEagerOperatorsIsNearTheMeasured) {
  const auto elements = [](const Cost& cost) { return cost.resident_bytes / (2.0 * 512 * 1024); };
  const auto norm = [](NormKind kind, Dtype dtype) { return Norm{kind, 512, 1024, dtype}; };
  EXPECT_NEAR(elements(norm(NormKind::kLayer, Dtype::kBf16).EagerForwardCost(false)), 3.014, 0.02);
  EXPECT_NEAR(elements(norm(NormKind::kLayer, Dtype::kFp32).EagerForwardCost(false)), 6.012, 0.02);
  EXPECT_NEAR(elements(norm(NormKind::kRms, Dtype::kBf16).EagerForwardCost(true)), 8.018, 0.02);
  EXPECT_NEAR(elements(norm(NormKind::kRms, Dtype::kFp32).EagerForwardCost(true)), 8.010, 0.02);
  EXPECT_NEAR(elements(norm(NormKind::kRms, Dtype::kFp32).EagerBackwardCost(true)), 14.014, 0.02);
  EXPECT_NEAR(elements(norm(NormKind::kLayer, Dtype::kFp32).EagerBackwardCost(false)), 6.028, 0.02);
}

}  // namespace
}  // namespace roofbench::workload
