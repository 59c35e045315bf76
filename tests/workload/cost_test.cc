// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {
namespace {

Operation Sample() {
  Operation operation{.bytes_read = 10, .bytes_written = 4, .bytes_updated = 3, .repeat = 2};
  operation.flops[Index(Dtype::kBf16)] = 100;
  operation.flops[Index(Dtype::kFp32)] = 7;
  return operation;
}

TEST(Cost, CountsUpdatedBytesTwiceAndRepeats) {
  EXPECT_EQ(Sample().Flops(), 2 * (100 + 7));
  EXPECT_EQ(Sample().Bytes(), 2 * (10 + 4 + 2 * 3));
}

TEST(Cost, SumsOverOperationsAndPrecisions) {
  const Cost cost{.operations = {Sample(), {.bytes_read = 5}}, .resident_bytes = 50};
  EXPECT_EQ(cost.Flops(Dtype::kBf16), 200);
  EXPECT_EQ(cost.Flops(Dtype::kFp32), 14);
  EXPECT_EQ(cost.Flops(Dtype::kInt8), 0);
  EXPECT_EQ(cost.BytesRead(), 25);
  EXPECT_EQ(cost.BytesWritten(), 8);
  EXPECT_EQ(cost.BytesUpdated(), 6);
  EXPECT_EQ(cost.Bytes(), 25 + 8 + 12);
}

TEST(Cost, RepeatingWorkKeepsItsMemory) {
  const Cost cost = Repeated({.operations = {Sample()}, .resident_bytes = 50, .in_sequence = 4}, 3);
  EXPECT_EQ(cost.Flops(), 3 * 214);
  EXPECT_EQ(cost.resident_bytes, 50);
  EXPECT_EQ(cost.in_sequence, 12);
}

TEST(Cost, AddingCostsAddsBoth) {
  Cost cost{.operations = {Sample()}, .resident_bytes = 50, .in_sequence = 4};
  cost += Cost{.operations = {{.bytes_read = 1}}, .resident_bytes = 2, .in_sequence = 3};
  EXPECT_EQ(cost.Bytes(), 41);
  EXPECT_EQ(cost.resident_bytes, 52);
  EXPECT_EQ(cost.in_sequence, 7);
}

TEST(Dtype, NamesRoundTrip) {
  for (const Dtype dtype : kDtypes) EXPECT_EQ(ParseDtype(Name(dtype)), dtype);
  EXPECT_EQ(ParseDtype("float"), std::nullopt);
  EXPECT_EQ(ParseDtype(""), std::nullopt);
}

TEST(Dtype, BytesAndEpsilonFollowFromTheFormat) {
  EXPECT_EQ(ElementBytes(Dtype::kFp32), 4);
  EXPECT_EQ(ElementBytes(Dtype::kTf32), 4);  // stored as fp32
  EXPECT_EQ(ElementBytes(Dtype::kBf16), 2);
  EXPECT_EQ(ElementBytes(Dtype::kInt8), 1);
  EXPECT_EQ(Epsilon(Dtype::kFp32), 1.1920928955078125e-07);  // numpy.finfo(float32).eps
  EXPECT_EQ(Epsilon(Dtype::kFp16), 0.0009765625);            // numpy.finfo(float16).eps
  EXPECT_EQ(Epsilon(Dtype::kBf16), 0.0078125);               // torch.finfo(torch.bfloat16).eps
  EXPECT_EQ(Epsilon(Dtype::kInt8), 0);
}

}  // namespace
}  // namespace roofbench::workload
