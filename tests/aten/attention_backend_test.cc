// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/attention_backend.h"

#include <ATen/Context.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <optional>

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

// What a processor has: one fused kernel, of some types and shapes, and the composition for all else.
TEST(AttentionBackend, IsTheKernelThatLibTorchTakes) {
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

// More heads of queries than of keys: without being told so LibTorch would fall back, or refuse.
TEST(AttentionBackend, SharedKeysAreFused) {
  const at::Tensor k = at::ones({1, 2, 16, 8});
  EXPECT_EQ(AttentionBackend(at::ones({1, 6, 4, 8}), k, k, std::nullopt, /*causal=*/false), kFlash);
}

}  // namespace
}  // namespace roofbench
