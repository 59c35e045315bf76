// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/shared_axes.h"

#include <gtest/gtest.h>

#include "lib/suite/named_rows.h"

namespace roofbench {
namespace {

using workload::Dtype;

TEST(SharedAxes, ADtypeSaysWhatIsComputedInAndStored) {
  const std::vector<AxisSpec> axes = {SharedAxis(kDtypeAxis, {"fp32", "tf32", "bf16", kBf16Autocast})};
  const auto expect = [&](const char* value, Dtype compute, Dtype storage) {
    const ComputeAndStorage dtypes = DtypesOf(Point("family", &axes, {{kDtypeAxis, value}}));
    EXPECT_EQ(dtypes.compute, compute) << value;
    EXPECT_EQ(dtypes.storage, storage) << value;
  };
  expect("fp32", Dtype::kFp32, Dtype::kFp32);
  expect("tf32", Dtype::kTf32, Dtype::kFp32);
  expect("bf16", Dtype::kBf16, Dtype::kBf16);
  expect(kBf16Autocast, Dtype::kBf16, Dtype::kFp32);
}

TEST(NamedRows, AreFoundByTheirNames) {
  struct Row {
    const char* name;
    int value;
  };
  constexpr Row kRows[] = {{"one", 1}, {"two", 2}};
  EXPECT_EQ(NamesOf(kRows), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(RowOf(kRows, "two").value, 2);
  EXPECT_THROW(RowOf(kRows, "three"), std::logic_error);
}

}  // namespace
}  // namespace roofbench
