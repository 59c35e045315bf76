// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/decode_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/operators/attention/attention_testing.h"

namespace roofbench::kernels {
namespace {

struct Shape {
  int64_t heads;
  int64_t group;
  int64_t head_dim;
  int64_t length;
};

template <typename T>
std::vector<T> Elements(int64_t n, uint32_t seed) {
  return Normal<T>(n, 0, 1, seed);
}
template <>
std::vector<int8_t> Elements(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> any(-128, 127);
  std::vector<int8_t> values(Size(n));
  for (int8_t& value : values) value = static_cast<int8_t>(any(random));
  return values;
}

// Room for all tokens of the heads and some more: rows of keys or values, each with a factor.
template <typename T>
struct Cache {
  Cache(int64_t rows, int64_t dim, uint32_t seed) : elements(Elements<T>(rows * dim, seed)) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> some(0.0F, 0.02F);
    for (int64_t i = 0; i < rows; ++i) scales.push_back(std::is_same_v<T, int8_t> ? some(random) : 1.0F);
  }

  std::vector<T> elements;
  std::vector<float> scales;
};

// Blocks of so many tokens in shuffled order, of sequences with so many heads.
struct Paging {
  int64_t tokens = 0;
  int64_t heads = 1;
};

struct Options {
  double tolerance = 1e-5;
  double query_deviation = 1;
  int threads = 1;
  Paging paging = {};
  Scores scores = {};
};

template <typename T>
void Check(const Shape& shape, const Options& options) {
  const Paging& paging = options.paging;
  const int64_t unit = std::max<int64_t>(paging.tokens, 1);
  const int64_t pages = (shape.length + unit - 1) / unit;  // of a sequence
  const int64_t capacity = paging.tokens == 0 ? shape.length + 3 : pages * unit;
  const std::vector<float> q = Normal<float>(shape.heads * shape.group * shape.head_dim, 0, options.query_deviation, 1);
  const Cache<T> keys(shape.heads * capacity, shape.head_dim, 2);
  const Cache<T> values(shape.heads * capacity, shape.head_dim, 3);
  std::vector<int32_t> blocks(Size(shape.heads / paging.heads * pages));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(4));
  const auto row_of = [&](int64_t head, int64_t t) {
    if (paging.tokens == 0) return head * capacity + t;
    const int64_t block = blocks[Size(head / paging.heads * pages + t / paging.tokens)];
    return (block * paging.heads + head % paging.heads) * paging.tokens + t % paging.tokens;
  };
  // The tokens of all heads, one head after the other.
  const auto exact = [&](const Cache<T>& cache) {
    Rows rows;
    for (int64_t i = 0; i < shape.heads * shape.length; ++i) {
      const int64_t row = row_of(i / shape.length, i % shape.length);
      std::vector<double>& to = rows.emplace_back();
      for (int64_t c = 0; c < shape.head_dim; ++c) {
        to.push_back(double{ToFloat(cache.elements[Size(row * shape.head_dim + c)])} * cache.scales[Size(row)]);
      }
    }
    return rows;
  };
  std::vector<float> y(q.size());
  DecodeAttention<T> work{.q = q.data(),
                          .keys = keys.elements.data(),
                          .values = values.elements.data(),
                          .y = y.data(),
                          .heads = shape.heads,
                          .group = shape.group,
                          .head_dim = shape.head_dim,
                          .length = shape.length,
                          .capacity = capacity,
                          .scale = options.scores.scale,
                          .cap = options.scores.cap};
  if (std::is_same_v<T, int8_t>) {
    work.key_scales = keys.scales.data();
    work.value_scales = values.scales.data();
  }
  if (paging.tokens != 0) work.pages = {blocks.data(), pages, paging.tokens, paging.heads};
  constexpr float kUntouched = 1e30F;
  std::vector<float> scratch(Size(ScratchFloats(work, options.threads)) + 1, kUntouched);
  if (options.threads > 1) work.scratch = scratch.data();
  Run(work, ThreadPool(options.threads));
  EXPECT_EQ(scratch.back(), kUntouched);
  Rows queries;
  for (auto at = q.begin(); at != q.end(); at += shape.head_dim) queries.emplace_back(at, at + shape.head_dim);
  const Rows expected =
      Exact{
          {.heads = shape.heads, .group = shape.group, .queries = 1, .keys = shape.length, .head_dim = shape.head_dim},
          queries,
          exact(keys),
          exact(values),
          options.scores}
          .Results();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t head = i / Size(shape.head_dim);
    const std::size_t column = i % Size(shape.head_dim);
    ExpectClose(y[i], expected[head][column], options.tolerance, 0.3,
                [&] { return "head " + std::to_string(head) + ", column " + std::to_string(column); });
  }
}

constexpr Shape kShapes[] = {{1, 1, 32, 1},    {2, 4, 64, 17},   {3, 1, 128, 128}, {2, 8, 64, 129},
                             {1, 11, 96, 300}, {2, 3, 256, 40},  {2, 2, 40, 33},   {1, 4, 64, 1000},
                             {1, 19, 64, 70},  {2, 7, 128, 257}, {1, 1, 256, 385}, {4, 2, 192, 131}};
// Queries and weights are rounded to bf16 on the way.
constexpr double kInBf16 = 3e-2;

TEST(DecodeAttention, AgreesWithFloat64OverCachesOfEveryType) {
  OnEveryIsa([] {
    for (const Shape& shape : kShapes) {
      Check<float>(shape, {});
      Check<Bf16>(shape, {.tolerance = kInBf16});
      Check<Fp16>(shape, {});
      Check<int8_t>(shape, {.tolerance = 1e-3});
    }
  });
}

// Many scores are far above the bound.
TEST(DecodeAttention, ScoresMayHaveAnotherScaleAndABound) {
  OnEveryIsa([] {
    for (const Shape& shape : kShapes) {
      for (const Scores& scores : {Scores{.scale = 0.3F}, {.cap = 1.5F}, {0.3F, 2.0F}}) {
        Check<float>(shape, {.tolerance = 2e-5, .scores = scores});
        Check<Bf16>(shape, {.tolerance = 2 * kInBf16, .scores = scores});
        Check<int8_t>(shape, {.tolerance = 5e-3, .threads = 3, .scores = scores});
      }
    }
  });
}

TEST(DecodeAttention, Pages) {
  for (const Paging& paging : {Paging{16, 2}, {5, 4}, {200, 2}}) {
    OnEveryIsa([&] {
      for (const Shape& shape :
           {Shape{4, 4, 64, 300}, {8, 1, 128, 129}, {4, 2, 64, 1}, {4, 3, 40, 64}, {4, 1, 128, 300}}) {
        Check<float>(shape, {.paging = paging});
        Check<Bf16>(shape, {.tolerance = kInBf16, .paging = paging});
        Check<int8_t>(shape, {.tolerance = 1e-3, .threads = 3, .paging = paging});
      }
    });
  }
}

TEST(DecodeAttention, KeysInParts) {
  for (const Shape& shape : {Shape{1, 1, 64, 3000}, {3, 4, 32, 1025}, {1, 11, 96, 700}, {5, 2, 40, 600}}) {
    Check<float>(shape, {.threads = 3});
    OnEveryIsa([&] { Check<Bf16>(shape, {.tolerance = kInBf16, .threads = 3}); });
    // With nearly all weight on one key, all parts but one contribute zero.
    Check<Bf16>(shape, {.tolerance = 0.5, .query_deviation = 100, .threads = 3});
  }
}

TEST(DecodeAttention, SharpWeightsDoNotOverflow) {
  OnEveryIsa([] {
    Check<Bf16>({1, 4, 64, 500}, {.tolerance = 0.5, .query_deviation = 100});
    Check<int8_t>({1, 4, 64, 500}, {.tolerance = 0.1, .query_deviation = 100});
  });
}

// Integers cannot represent NaN, and must not hide it.
TEST(DecodeAttention, ANanSpoilsItsHeadAlone) {
  OnEveryIsa([] {
    std::vector<float> q(128, 1.0F);
    q[3] = static_cast<float>(kNan);
    const std::vector<int8_t> cache(64 * 64, 1);
    const std::vector<float> scales(64, 0.5F);
    std::vector<float> y(q.size());
    kernels::Run(DecodeAttention<int8_t>{.q = q.data(),
                                         .keys = cache.data(),
                                         .values = cache.data(),
                                         .key_scales = scales.data(),
                                         .value_scales = scales.data(),
                                         .y = y.data(),
                                         .group = 2,
                                         .head_dim = 64,
                                         .length = 64,
                                         .capacity = 64},
                 SerialFor());
    EXPECT_TRUE(std::all_of(y.begin(), y.begin() + 64, [](float v) { return std::isnan(v); }));
    EXPECT_TRUE(std::all_of(y.begin() + 64, y.end(), [](float v) { return std::abs(v - 0.5F) < 1e-4F; }));
  });
}

}  // namespace
}  // namespace roofbench::kernels
