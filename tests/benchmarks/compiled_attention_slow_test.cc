// SPDX-License-Identifier: Apache-2.0
// The formula of attention, compiled by Inductor, is what the family computes: with a mask and fewer queries than keys,
// with heads that share keys, and for one query a sequence.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/cpu_device.h"
#include "lib/suite/check.h"
#include "lib/suite/family.h"
#include "lib/suite/inputs.h"
#include "tests/base/temp_folder.h"
#include "tests/suite/run_once.h"

namespace roofbench {
namespace {

void ExpectRight(const std::string& name, const std::vector<std::pair<std::string, std::string>>& axes) {
  const TempFolder folder;
  setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  const Family& family = FamilyNamed(name);
  Point point = family.Points(Suite::kFull)[0].With("impl", "compiled");
  for (const auto& [axis, value] : axes) point = point.With(axis, value);
  CpuDevice device(1);
  Inputs inputs(device, 1, name);
  const auto built = family.BuildAt(point, inputs);
  ASSERT_TRUE(built.ok()) << built.status();
  RunOnce(*built);
  const absl::Status right = CheckCase(*built);
  EXPECT_TRUE(right.ok()) << right;
  EXPECT_FALSE(CheckCase(*built, {.result = [](at::Tensor& result) { result.select(0, 0).mul_(2); }}).ok());
}

TEST(CompiledAttention, OfQueriesThatTheMaskLetsSeeSomeKeysIsRight) {
  ExpectRight("attention", {{"dtype", "bf16"},
                            {"mask", "causal"},
                            {"batch", "2"},
                            {"heads", "6"},
                            {"kv_heads", "2"},
                            {"queries", "24"},
                            {"keys", "40"},
                            {"d", "48"}});
}

TEST(CompiledAttention, OfOneQueryIsRight) {
  ExpectRight("decode_attention",
              {{"dtype", "fp32"}, {"batch", "2"}, {"heads", "6"}, {"kv_heads", "2"}, {"keys", "40"}, {"d", "48"}});
}

}  // namespace
}  // namespace roofbench
