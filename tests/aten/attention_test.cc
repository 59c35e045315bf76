// SPDX-License-Identifier: Apache-2.0
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "lib/aten/attention.h"
#include "lib/kernels/threading/thread_pool.h"

namespace roofbench {
namespace {

constexpr int64_t kMath = 0;
constexpr int64_t kFlash = 1;

int64_t Backend(const at::Tensor& q, const std::optional<at::Tensor>& mask = std::nullopt) {
  const at::Tensor k = at::ones({1, 2, 16, 8}, q.options());
  return AttentionBackend(q, k, k, mask, /*causal=*/false);
}

class FlashIsAllowed {
 public:
  explicit FlashIsAllowed(bool is_allowed) { at::globalContext().setSDPUseFlash(is_allowed); }
  FlashIsAllowed(const FlashIsAllowed&) = delete;
  FlashIsAllowed& operator=(const FlashIsAllowed&) = delete;
  ~FlashIsAllowed() { at::globalContext().setSDPUseFlash(before_); }

 private:
  const bool before_ = at::globalContext().userEnabledFlashSDP();
};

// On a CPU, one fused kernel covers some types and shapes, and the composition covers the rest.
TEST(AttentionBackend, IsTheKernelThatLibTorchRuns) {
  const at::Tensor q = at::ones({1, 2, 4, 8});
  EXPECT_EQ(Backend(q), kFlash);
  const FlashIsAllowed no(false);
  EXPECT_EQ(Backend(q), kMath);
}

TEST(AttentionBackend, DependsOnTheArguments) {
  EXPECT_EQ(Backend(at::ones({1, 2, 4, 8}, at::kDouble).requires_grad_(), at::ones({4, 16}, at::kBool)), kFlash);
  const at::Tensor mask = at::ones({4, 16}, at::kDouble).requires_grad_();
  EXPECT_EQ(Backend(at::ones({1, 2, 4, 8}, at::kDouble), mask), kMath) << "the fused one has no gradient of a mask";
}

// More query heads than key heads: unless grouped-query attention is requested, LibTorch falls back or refuses.
TEST(AttentionBackend, SharedKeysAreFused) {
  const at::Tensor k = at::ones({1, 2, 16, 8});
  EXPECT_EQ(AttentionBackend(at::ones({1, 6, 4, 8}), k, k, std::nullopt, /*causal=*/false), kFlash);
}

// In double precision, on a copy of keys and values for each query head.
at::Tensor Exact(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& seen,
                 const CappedAttention& attention) {
  const int64_t group = q.size(1) / k.size(1);
  const at::Tensor keys = k.to(at::kDouble).repeat_interleave(group, 1);
  const at::Tensor scores = at::matmul(q.to(at::kDouble), keys.transpose(2, 3)) * attention.scale;
  const at::Tensor bent = attention.cap * (scores / attention.cap).tanh();
  const at::Tensor weights =
      at::softmax(bent.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity()), -1);
  return at::matmul(weights, v.to(at::kDouble).repeat_interleave(group, 1));
}

at::Tensor Heads(int64_t batch, int64_t tokens, int64_t heads, at::ScalarType type) {
  return at::randn({batch, tokens, heads, 16}).to(type).transpose(1, 2);  // the layout that a product leaves
}

// Query counts below and above the block size, one sequence and several, with all kinds of masks.
TEST(CappedAttention, AgreesWithFloat64) {
  const CappedAttention attention{.scale = 0.5, .cap = 3};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const double bound = type == at::kFloat ? 1e-5 : 3e-2;
    for (const int64_t batch : {1, 3}) {
      for (const int64_t tokens : {1, 7, 129, 300}) {
        at::manual_seed(tokens);
        const at::Tensor q = Heads(batch, tokens, 6, type);
        const at::Tensor k = Heads(batch, tokens + 5, 3, type);
        const at::Tensor v = Heads(batch, tokens + 5, 3, type);
        const auto off = [&](const at::Tensor& y, const at::Tensor& exact) {
          return (y.to(at::kDouble) - exact).abs().max().item<double>();
        };
        const at::Tensor all = at::ones({tokens, tokens + 5}, at::kBool);
        EXPECT_LT(off(attention(q, k, v, std::nullopt, false), Exact(q, k, v, all, attention)), bound);
        at::Tensor some = at::rand({tokens, tokens + 5}).gt(0.5);
        some.select(1, 0).fill_(true);
        EXPECT_LT(off(attention(q, k, v, some, false), Exact(q, k, v, some, attention)), bound);
        const at::Tensor row = some.narrow(0, 0, 1);
        EXPECT_LT(off(attention(q, k, v, row, false), Exact(q, k, v, row, attention)), bound);
        const at::Tensor own_k = k.narrow(2, 0, tokens);
        const at::Tensor own_v = v.narrow(2, 0, tokens);
        const at::Tensor before = at::ones({tokens, tokens}, at::kBool).tril();
        const at::Tensor y = attention(q, own_k, own_v, std::nullopt, true);
        EXPECT_LT(off(y, Exact(q, own_k, own_v, before, attention)), bound);
        EXPECT_EQ(y.sizes(), q.sizes());
        EXPECT_EQ(y.scalar_type(), type);
      }
    }
  }
}

TEST(CappedAttention, AHighCapHasNoEffect) {
  const at::Tensor q = Heads(2, 40, 4, at::kFloat);
  const at::Tensor k = Heads(2, 40, 2, at::kFloat);
  const at::Tensor v = Heads(2, 40, 2, at::kFloat);
  const at::Tensor expected = at::scaled_dot_product_attention(q, k, v, std::nullopt, 0.0, true, 0.25, true);
  const at::Tensor y = CappedAttention{.scale = 0.25, .cap = 1e4}(q, k, v, std::nullopt, true);
  EXPECT_LT((y - expected).abs().max().item<double>(), 1e-5);
}

// Tokens appended to a cache that has room for more, then a shorter prompt that reuses the memory of the first.
TEST(PromptAttention, AttendsToTheCacheAndEarlierTokens) {
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
      const at::Tensor seen = at::ones({tokens, before + tokens}, at::kBool).tril(before);
      const at::Tensor exact = Exact(qkv, k, v, seen, {.scale = 0.25, .cap = 1e9});  // 1 / sqrt(16), and no cap
      EXPECT_LT((y.to(at::kDouble) - exact).abs().max().item<double>(), tolerance)
          << before << " + " << tokens << " tokens, " << type;
    }
  }
}

}  // namespace
}  // namespace roofbench
