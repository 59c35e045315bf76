// SPDX-License-Identifier: Apache-2.0
// y = W · x for a few vectors x: the product of token generation, bound by the bytes of the weights; of quantized
// weights also for many.
//
// Sums are fp32. A product with int8 or int4 weights takes finite activations as 16-bit fixed point, a scale for each
// 1024 of them (an error of at most 2^-16 of their largest), where the processor has 8-bit dot products. Activations
// with an infinity or a NaN are multiplied in fp32 everywhere, so that results have the same class (finite, infinite,
// NaN) as in fp32 arithmetic.
#pragma once

#include <concepts>
#include <cstdint>

#include "lib/kernels/operators/products/fixed_point.h"
#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// y[i, :] = W · x[i, :] for i in [0, m). X: float for fp32 weights, Bf16 for all others; Y: X or float. The weights are
// read from memory once for each 64 vectors.
template <typename Weight, typename X, typename Y>
struct Gemv {
  Weight weight;
  const X* x = nullptr;  // [m, k]
  Y* y = nullptr;        // [m, n]
  int64_t m = 1;
};

// y[e, :] = W[experts[e], :, :] · x: a token's share of a mixture of experts. `weight` describes the first expert; the
// others follow without gaps (their scales, too).
template <typename Weight, typename X, typename Y>
struct GatherGemv {
  Weight weight;
  const int64_t* experts = nullptr;  // [count], each below the number of experts that there are
  int64_t count = 0;
  const X* x = nullptr;  // [k], the same for every expert
  Y* y = nullptr;        // [count, n]
};

// The whole product.
template <typename Weight, typename X, typename Y>
void Run(const Gemv<Weight, X, Y>& work, const ParallelFor& parallel_for);
template <typename Weight, typename X, typename Y>
void Run(const GatherGemv<Weight, X, Y>& work, const ParallelFor& parallel_for);

// y[:, rows] alone, on the calling thread. For int4 rows.begin is a multiple of kInt4TileRows.
template <typename Weight, typename X, typename Y>
void RunRows(const Gemv<Weight, X, Y>& work, Range rows);

template <typename Weight>
concept Quantized = std::same_as<Weight, Int8Weight> || std::same_as<Weight, Int4Weight>;

// The same with vectors that were converted from work.x, for products whose rows are computed in several pieces.
template <Quantized Weight, typename Y>
void RunRows(const Gemv<Weight, Bf16, Y>& work, const FixedPointVectors& x, Range rows);

// A product may be split on multiples of this many rows.
template <typename Weight>
inline constexpr int64_t kRowGrain = 1;
template <>
inline constexpr int64_t kRowGrain<Int4Weight> = kInt4TileRows;

// Expert `index` of several that are contiguous in memory.
template <typename T>
constexpr PlainWeight<T> Expert(PlainWeight<T> first, int64_t index) {
  first.data += index * first.n * first.k;
  return first;
}
constexpr Int8Weight Expert(Int8Weight first, int64_t index) {
  first.data += index * first.n * first.k;
  first.scales += index * first.n;
  return first;
}
constexpr Int4Weight Expert(Int4Weight first, int64_t index) {
  first.data += index * Int4Bytes(first.n, first.k, first.group);
  return first;
}

}  // namespace roofbench::kernels
