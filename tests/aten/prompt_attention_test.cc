// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/prompt_attention.h"

#include <ATen/Context.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/kernels/threading/thread_pool.h"

namespace roofbench {
namespace {

// LibTorch's operations in double precision, on a copy of keys and values for each query head.
at::Tensor Exact(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const int64_t group = q.size(1) / k.size(1);
  const at::Tensor keys = k.to(at::kDouble).repeat_interleave(group, 1);
  const at::Tensor values = v.to(at::kDouble).repeat_interleave(group, 1);
  const at::Tensor hidden =
      at::ones({q.size(2), k.size(2)}, at::TensorOptions(at::kBool)).triu(k.size(2) - q.size(2) + 1);
  const at::Tensor scores = at::matmul(q.to(at::kDouble), keys.transpose(2, 3))
                                .div(std::sqrt(static_cast<double>(q.size(3))))
                                .masked_fill(hidden, -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(scores, -1), values);
}

// Tokens behind others in a cache that has room for more, then a shorter prompt with the memory of the first.
TEST(PromptAttention, SeesTheCacheAndTheTokensBefore) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    PromptAttention attention;
    for (const auto& [before, tokens] : {std::pair{30, 90}, {0, 40}, {70, 2}}) {
      at::manual_seed(before);
      const at::Tensor qkv = at::randn({2, tokens, 6, 16}).to(type).transpose(1, 2);
      const at::Tensor cache = at::randn({2, 2, 3, 130, 16}).to(type);
      const at::Tensor k = cache[0].narrow(1, 0, 3).narrow(2, 0, before + tokens);
      const at::Tensor v = cache[1].narrow(1, 0, 3).narrow(2, 0, before + tokens);
      const at::Tensor y = attention(qkv, k, v, kernels::ThreadPool(2));
      ASSERT_EQ(y.scalar_type(), type);
      EXPECT_TRUE(y.transpose(1, 2).is_contiguous()) << "the heads of a token can be merged without a copy";
      const double tolerance = type == at::kFloat ? 1e-5 : 2e-2;
      EXPECT_LT((y.to(at::kDouble) - Exact(qkv, k, v)).abs().max().item<double>(), tolerance)
          << before << " + " << tokens << " tokens, " << type;
    }
  }
}

}  // namespace
}  // namespace roofbench
