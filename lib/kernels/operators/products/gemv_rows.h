// SPDX-License-Identifier: Apache-2.0
// The loops of gemv.cc with AVX-512: rows of one product with one or several vectors. y[i] is the result of row
// rows.begin + i.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/simd/floats.h"
#include "lib/kernels/simd/streaming.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// A vector as 16-bit fixed point in two signed bytes: x[i] ≈ scales[i / kBlock] · (256 · high[i] + low[i]). Bytes,
// because the 8-bit dot product is twice as fast as the 16-bit one and takes weights as they are.
struct FixedPoint {
  static constexpr int64_t kBlock = 1024;
  static constexpr int64_t kLanes = 16;

  std::vector<Line<int8_t>> high;  // zeros from k to a multiple of kBlock
  std::vector<Line<int8_t>> low;
  std::vector<float> scales;
  // For weights that are stored with an offset, in units of the block's scale:
  std::vector<int32_t> lane_sums;   // [blocks, kLanes]: sums of the elements that one 32-bit lane multiplies, times 128
  std::vector<int32_t> group_sums;  // [k / group], times -8
  std::vector<float> group_floats;  // [k / group]
};

// Rows are read in eight streams, which share the loads of x: one stream per thread leaves a tenth of fast memory
// unused, except where kFewStreams. Each stream is a contiguous eighth of the rows, because adjacent short rows would
// all end at once and restart elsewhere (int8, 2048 columns: 8 % slower in slow memory, 14 to 24 % in fast; EPYC,
// 2026-11-21). The remaining rows add in another order.
inline constexpr int kRowStreams = 8;
inline constexpr int kFewRowStreams = 2;  // twice this divides kRowStreams: the remaining rows are the same

// Prefetch distance in bytes of a stream into the second-level cache.
inline constexpr int64_t kRowAhead = 2048;

// The most vectors that rows are multiplied with at a time.
inline constexpr int64_t kMostVectors = 6;

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

// Need kAvx512Vnni. Converts x[k]; `group` (0: none) is that of group_sums. False where x is not finite or so small
// that its scale would not be finite: such activations need PortableRows.
bool Avx512Convert(const Bf16* x, int64_t k, int64_t group, FixedPoint& to);
void Avx512Rows(const Int8Weight& weight, const FixedPoint& x, float* y, Range rows);
void Avx512FewStreams(const Int8Weight& weight, const FixedPoint& x, float* y, Range rows);
void Avx512Rows(const Int4Weight& weight, const FixedPoint& x, float* y, Range rows);
void Avx512FewStreams(const Int4Weight& weight, const FixedPoint& x, float* y, Range rows);
// For several vectors, from 2 to kMostVectors; y[v · y_stride + i] is the result of vector v. Each result equals that
// of Avx512Rows.
void Avx512Vectors(const Int8Weight& weight, const FixedPoint* const* x, int64_t vectors, float* y, int64_t y_stride,
                   Range rows, const FetchPlan& fetch);
#endif

}  // namespace roofbench::kernels
