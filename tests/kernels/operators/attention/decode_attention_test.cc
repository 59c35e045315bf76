// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/decode_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

struct Shape {
  int64_t heads;
  int64_t group;
  int64_t head_dim;
  int64_t length;
};

// softmax(q · Kᵀ / sqrt(dim)) · V in double precision, for one query head.
std::vector<double> Expected(const float* q, const std::vector<double>& keys, const std::vector<double>& values,
                             int64_t first, const Shape& shape) {
  std::vector<double> scores(static_cast<std::size_t>(shape.length));
  const auto at = [&](const std::vector<double>& from, int64_t t, int64_t i) {
    return from[static_cast<std::size_t>(first + t * shape.head_dim + i)];
  };
  for (int64_t t = 0; t < shape.length; ++t) {
    double score = 0;
    for (int64_t i = 0; i < shape.head_dim; ++i) score += double{q[i]} * at(keys, t, i);
    scores[static_cast<std::size_t>(t)] = score / std::sqrt(static_cast<double>(shape.head_dim));
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  std::vector<double> y(static_cast<std::size_t>(shape.head_dim));
  double sum = 0;
  for (int64_t t = 0; t < shape.length; ++t) {
    const double weight = std::exp(scores[static_cast<std::size_t>(t)] - largest);
    sum += weight;
    for (int64_t i = 0; i < shape.head_dim; ++i) y[static_cast<std::size_t>(i)] += weight * at(values, t, i);
  }
  for (double& value : y) value /= sum;
  return y;
}

template <typename T>
void Check(const Shape& shape, double query_deviation, double tolerance, int threads = 1) {
  const int64_t stride = (shape.length + 3) * shape.head_dim;  // room for tokens to come
  const std::vector<float> q = Normal<float>(shape.heads * shape.group * shape.head_dim, 0, query_deviation, 1);
  const std::vector<T> keys = Normal<T>(shape.heads * stride, 0, 1, 2);
  const std::vector<T> values = Normal<T>(shape.heads * stride, 0, 1, 3);
  std::vector<double> exact_keys;
  std::vector<double> exact_values;
  for (const T key : keys) exact_keys.push_back(ToFloat(key));
  for (const T value : values) exact_values.push_back(ToFloat(value));
  std::vector<float> y(q.size());
  DecodeAttention<T> work{.q = q.data(),
                          .keys = keys.data(),
                          .values = values.data(),
                          .y = y.data(),
                          .heads = shape.heads,
                          .group = shape.group,
                          .head_dim = shape.head_dim,
                          .length = shape.length,
                          .head_stride = stride};
  constexpr float kUntouched = 1e30F;
  std::vector<float> scratch(static_cast<std::size_t>(ScratchFloats(work, threads)) + 1, kUntouched);
  if (threads > 1) work.scratch = scratch.data();
  Run(work, ThreadPool(threads));
  EXPECT_EQ(scratch.back(), kUntouched);
  for (int64_t head = 0; head < shape.heads * shape.group; ++head) {
    const std::vector<double> expected =
        Expected(q.data() + head * shape.head_dim, exact_keys, exact_values, head / shape.group * stride, shape);
    for (int64_t i = 0; i < shape.head_dim; ++i) {
      ExpectClose(y[static_cast<std::size_t>(head * shape.head_dim + i)], expected[static_cast<std::size_t>(i)],
                  tolerance, 0.3, "head " + std::to_string(head) + ", column " + std::to_string(i));
    }
  }
}

constexpr Shape kShapes[] = {{1, 1, 32, 1},    {2, 4, 64, 17},  {3, 1, 128, 128}, {2, 8, 64, 129},
                             {1, 11, 96, 300}, {2, 3, 256, 40}, {2, 2, 40, 33},   {1, 4, 64, 1000}};

TEST(DecodeAttention, Fp32) {
  for (const Shape& shape : kShapes) Check<float>(shape, 1, 1e-5);
}

TEST(DecodeAttention, Bf16OnEveryIsa) {
  OnEveryIsa([] {
    // Queries are rounded to bf16 on the way.
    for (const Shape& shape : kShapes) Check<Bf16>(shape, 1, 3e-2);
  });
}

TEST(DecodeAttention, KeysInParts) {
  for (const Shape& shape : {Shape{1, 1, 64, 3000}, {3, 4, 32, 1025}, {1, 11, 96, 700}, {5, 2, 40, 600}}) {
    Check<float>(shape, 1, 1e-5, 3);
    OnEveryIsa([&] { Check<Bf16>(shape, 1, 3e-2, 3); });
    // With nearly all weight on one key, all but one of the parts count for nothing.
    Check<Bf16>(shape, 100, 0.5, 3);
  }
}

TEST(DecodeAttention, SharpWeightsDoNotOverflow) {
  OnEveryIsa([] { Check<Bf16>({1, 4, 64, 500}, 100, 0.5); });
}

}  // namespace
}  // namespace roofbench::kernels
