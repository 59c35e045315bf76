// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/row_operations.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench {
namespace {

// In double precision.
at::Tensor Turned(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines) {
  const int64_t pairs = cosines.size(1);
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor a = wide.narrow(-1, 0, pairs);
  const at::Tensor b = wide.narrow(-1, pairs, pairs);
  return at::cat({a * cosines - b * sines, b * cosines + a * sines, wide.narrow(-1, 2 * pairs, x.size(-1) - 2 * pairs)},
                 -1);
}

TEST(TurnHeads, TurnsThePairsOfEveryLayoutInPlace) {
  const at::NoGradGuard no_grad;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t pairs : {32, 16, 3}) {
      const at::Tensor cosines = at::randn({5, pairs});
      const at::Tensor sines = at::randn({5, pairs});
      // Tokens of all heads, of which some are turned, and heads of all tokens.
      const at::Tensor by_token = at::randn({2, 5, 7, 64}).to(type).transpose(1, 2);
      const at::Tensor by_head = at::randn({2, 7, 5, 64}).to(type);
      for (const at::Tensor& all : {by_token, by_head}) {
        const at::Tensor before = all.clone();
        const at::Tensor heads = all.narrow(1, 1, 6);
        TurnHeads(heads, cosines, sines, kernels::SerialFor());
        const at::Tensor off = (heads - Turned(before.narrow(1, 1, 6), cosines, sines)).abs();
        EXPECT_LT(off.max().item<double>(), type == at::kFloat ? 1e-5 : 0.05) << pairs;
        EXPECT_TRUE(all.select(1, 0).equal(before.select(1, 0))) << "no other heads";
        EXPECT_TRUE(heads.narrow(-1, 2 * pairs, 64 - 2 * pairs)
                        .equal(before.narrow(1, 1, 6).narrow(-1, 2 * pairs, 64 - 2 * pairs)));
      }
    }
  }
  EXPECT_THROW(
      TurnHeads(at::randn({1, 1, 5, 8}).transpose(2, 3), at::randn({8, 2}), at::randn({8, 2}), kernels::SerialFor()),
      c10::Error);
}

}  // namespace
}  // namespace roofbench
