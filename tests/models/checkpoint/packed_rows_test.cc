// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/packed_rows.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <limits>

namespace roofbench::models {
namespace {

constexpr int64_t kRows = 64;
constexpr int64_t kColumns = 96;
constexpr int64_t kGroup = 32;

// A large matrix is read some rows at a time.
class PackedRowsOf : public testing::TestWithParam<PackedFormat::Packing> {};
TEST_P(PackedRowsOf, APartAreThoseOfTheWhole) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  const auto words = [&](at::IntArrayRef shape) {
    return at::randint(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), shape, generator,
                       at::kInt);
  };
  const bool is_gptq = GetParam() == PackedFormat::Packing::kGptq;
  const PackedLayer layer{
      .format = {.packing = GetParam(), .group = kGroup, .added_to_zeros = 1},
      .qweight = is_gptq ? words({kColumns / kCodesPerWord, kRows}) : words({kColumns, kRows / kCodesPerWord}),
      .qzeros = words({kColumns / kGroup, kRows / kCodesPerWord}),
      .scales = at::rand({kColumns / kGroup, kRows}, generator)};
  ASSERT_EQ(layer.columns(), kColumns);
  const PackedRows whole = layer.Rows(0, kRows);
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
