// SPDX-License-Identifier: Apache-2.0
// The loops of gemv.cc with AVX-512: rows of one product with one or several vectors. y[i] is the result of row
// rows.begin + i.
#pragma once

#include <cstdint>

#include "lib/kernels/operators/products/fixed_point.h"
#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Rows are read in eight streams, which share the loads of x: one stream per thread leaves a tenth of fast memory
// unused, except where kFewStreams. Each stream is a contiguous eighth of the rows, because adjacent short rows would
// all end at once and restart elsewhere (int8, 2048 columns: 8 % slower in slow memory, 14 to 24 % in fast; EPYC,
// 2026-11-21). The remaining rows add in another order.
inline constexpr int kRowStreams = 8;
inline constexpr int kFewRowStreams = 2;  // twice this divides kRowStreams: the remaining rows are the same

// Prefetch distance in bytes of a stream into the second-level cache.
inline constexpr int64_t kRowAhead = 2048;

// The most vectors that rows are multiplied with at a time: by four rows of int8, and by two tiles of int4, as many
// sums as registers hold. More by fewer rows, which then share too few loads, take longer: four by two rows 1.28 times
// as long as two by four rows, twice (one core of an EPYC, Zen 4, 2026-11-29).
template <typename Weight>
inline constexpr int64_t kMostVectors = 3;
template <>
inline constexpr int64_t kMostVectors<Int4Weight> = 4;

// The part of memory that a product prefetches while it multiplies: a share of the lines that lie `ahead` bytes after
// those of its rows. Where several sets of vectors take the rows one after the other, each set has a share.
struct FetchPlan {
  int64_t ahead = 0;
  int64_t share = 0;  // below `shares`; equal to it: no prefetch
  int64_t shares = 1;
};

#if ROOFBENCH_X86
// Need kAvx512Bf16. FewStreams, here and below, has the same results.
void Avx512Rows(const Bf16Weight& weight, const Bf16* x, float* y, Range rows);
void Avx512FewStreams(const Bf16Weight& weight, const Bf16* x, float* y, Range rows);

// Need kAvx512Vnni.
void Avx512Rows(const Int8Weight& weight, const FixedPoint& x, float* y, Range rows);
void Avx512FewStreams(const Int8Weight& weight, const FixedPoint& x, float* y, Range rows);
void Avx512Rows(const Int4Weight& weight, const FixedPoint& x, float* y, Range rows);
void Avx512FewStreams(const Int4Weight& weight, const FixedPoint& x, float* y, Range rows);
// For several vectors, from 2 to kMostVectors; y[v · y_stride + i] is the result of vector v. Each result equals that
// of Avx512Rows.
void Avx512Vectors(const Int8Weight& weight, const FixedPoint* const* x, int64_t vectors, float* y, int64_t y_stride,
                   Range rows, const FetchPlan& fetch);
void Avx512Vectors(const Int4Weight& weight, const FixedPoint* const* x, int64_t vectors, float* y, int64_t y_stride,
                   Range rows, const FetchPlan& fetch);
#endif

}  // namespace roofbench::kernels
