// SPDX-License-Identifier: Apache-2.0
// A package is made by Python, kept, and run without it.

#include <ATen/ops/_softmax.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/suite/check.h"
#include "lib/suite/steps/compiled.h"
#include "tests/base/temp_folder.h"
#include "tests/device/fake_device.h"

namespace roofbench {
namespace {

TEST(CompiledPackage, IsMadeOnceAndRight) {
  const TempFolder folder;
  setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  const FakeDevice device;
  const at::Tensor x = at::randn({5, 72}).to(at::kBFloat16);
  const auto expect_right = [&](int made) {
    const absl::StatusOr<CompiledOperation> softmax = Compile("softmax", {x}, device);
    ASSERT_TRUE(softmax.ok()) << softmax.status();
    const absl::Status right = CompareTensors((*softmax)({x}), at::_softmax(x.to(at::kDouble), 1, false),
                                              {.dtype = workload::Dtype::kBf16, .reduction = 72}, "softmax");
    EXPECT_TRUE(right.ok()) << right;
    EXPECT_EQ(softmax->times.made, made);
    EXPECT_GT(softmax->times.load_seconds, 0);
    EXPECT_GT(softmax->times.made_seconds, softmax->times.load_seconds) << "of the package, also where it was kept";
  };
  expect_right(1);
  // From here on without Python.
  setenv("ROOFBENCH_PYTHON", (folder / "none").c_str(), 1);
  expect_right(0);
  EXPECT_FALSE(Compile("softmax", {at::randn({5, 73})}, device).ok());

  for (const auto& entry : std::filesystem::directory_iterator(folder / "cache/roofbench/compiled")) {
    std::ofstream(entry.path()) << "spoilt";
  }
  const absl::Status spoilt = Compile("softmax", {x}, device).status();
  EXPECT_EQ(spoilt.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(spoilt.message().find("delete it"), absl::string_view::npos) << spoilt;
}

}  // namespace
}  // namespace roofbench
