// SPDX-License-Identifier: Apache-2.0
#include "lib/device/host_waits.h"

#include <ATen/ops/_unique2.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <functional>

namespace roofbench {
namespace {

TEST(HostWaits, AreTheOperatorsThatReadAResult) {
  double now = 0;
  // Each reading is a second later: an operator that waits takes at least one.
  const auto waited_in = HostWaits([&] { return now += 1; });
  const at::Tensor x = at::ones({4});
  const at::Tensor chosen = at::ones({4}, at::kBool);
  const struct {
    const char* name;
    std::function<void()> step;
    bool waits;
  } table[] = {
      {"add", [&] { x + x; }, false},
      {"item", [&] { x.select(0, 0).item<float>(); }, true},
      {"nonzero", [&] { at::nonzero(x); }, true},
      {"equal", [&] { at::equal(x, x); }, true},
      {"masked_select", [&] { at::masked_select(x, chosen); }, true},
      {"unique", [&] { at::_unique2(x); }, true},
      {"a copy within a device", [&] { x.clone().copy_(x); }, false},
  };
  for (const auto& row : table) EXPECT_EQ(waited_in(row.step) > 0, row.waits) << row.name;
}

}  // namespace
}  // namespace roofbench
