// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/suite/test_family.h"

namespace roofbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DescribeTest : public testing::Test {
 protected:
  FakeDevice device_;
  Family family_ = TestFamily(device_, 1, "a");
};

TEST_F(DescribeTest, AxesAreListedWithTheirValuesAndDefaults) {
  EXPECT_THAT(DescribeAxes({family_}),
              AllOf(HasSubstr("a: adds one"), HasSubstr("registered 16, 32, 64, 4096"),
                    HasSubstr("good, wrong, throws, refuses [good]"), HasSubstr("operands come from memory")));
}

TEST_F(DescribeTest, ImplementationsSayWhereTheyRunAndWhyNotElsewhere) {
  const Family family({.name = "b",
                       .doc = "two ways",
                       .implementations = {{.name = "eager", .on_cpu = true, .on_gpu = true},
                                           {.name = "native",
                                            .on_cpu = true,
                                            .on_gpu = true,
                                            .kernels = {"Spin"},
                                            .dtypes = {"bf16"},
                                            .limits = "no fp32 kernel"}},
                       .default_impl = "eager",
                       .default_cache = kWarm});
  EXPECT_THAT(DescribeAxes({family}), HasSubstr("native: emulated on GPUs; for bf16; no fp32 kernel"));
  EXPECT_THAT(DescribeAxes({family}), HasSubstr("eager     LibTorch's own operators"));
  const auto described = DescribeFamily(family);
  EXPECT_EQ(described["axes"][0]["name"], "impl");
  EXPECT_EQ(described["axes"][0]["role"], "impl");
  EXPECT_EQ(described["axes"][0]["default"], "eager");
  EXPECT_EQ(described["cache_default"], "warm");
  EXPECT_EQ(described["implementations"][1]["proof"]["cuda"], "emulated");
  EXPECT_EQ(described["implementations"][0]["proof"]["cuda"], "checked");
  EXPECT_EQ(described["implementations"][1]["dtypes"], nlohmann::ordered_json({"bf16"}));
}

}  // namespace
}  // namespace roofbench
