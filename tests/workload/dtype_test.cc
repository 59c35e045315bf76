// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/dtype.h"

#include <gtest/gtest.h>

namespace roofbench::workload {
namespace {

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
