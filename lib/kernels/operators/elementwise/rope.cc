// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/rope.h"

#include <algorithm>

#include "lib/kernels/simd/avx512.h"
#include "lib/kernels/simd/dispatch.h"
#include "lib/kernels/simd/streaming.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/rope.cc"  // NOLINT(bugprone-suspicious-include)
#include "hwy/cache_control.h"
#include "lib/kernels/simd/highway_math.inc"

#ifndef ROOFBENCH_KERNELS_ROPE_BLOCKS_
#define ROOFBENCH_KERNELS_ROPE_BLOCKS_
namespace roofbench::kernels {

// Some positions of all heads before the next ones: their angles stay in the cache.
inline constexpr int64_t kPositions = 256;
// The processor's own prefetchers stop at the end of a page.
inline constexpr int64_t kAheadBytes = 4096;

// What is streamed comes from memory. In place, the lines of the result have been read. Both halves of a row begin with
// a line.
template <typename T>
bool Streams(const Rope<T>& work) {
  return work.x != work.y && work.y_stride == work.cols && StreamsRows(work.y, 2 * work.rows, work.cols / 2);
}

}  // namespace roofbench::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

template <bool kStream, typename T>
HWY_NOINLINE void Rows(const Rope<T>& work, Range range) {
  const std::size_t lanes = FloatLanes();
  const auto half = static_cast<std::size_t>(work.cols / 2);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* x = work.x + row * work.x_stride;
    T* y = work.y + row * work.y_stride;
    // Streamed rows come from memory; the processor's own prefetchers stop at the end of a page.
    for (const T* next = x; kStream && next < x + work.cols; next += kLineBytes / sizeof(T)) {
      __builtin_prefetch(reinterpret_cast<const char*>(next) + kAheadBytes, 0, 2);
    }
    const int64_t angles = row % work.positions * (work.cols / 2);
    for (std::size_t i = 0; i < half; i += lanes) {
      const std::size_t count = half - i;
      const FloatVec cosine = LoadSome(work.cosines + angles + i, count);
      const FloatVec sine = LoadSome(work.sines + angles + i, count);
      const FloatVec first = LoadSome(x + i, count);
      const FloatVec second = LoadSome(x + half + i, count);
      StoreSome<kStream>(hn::NegMulAdd(second, sine, hn::Mul(first, cosine)), y + i, count);
      StoreSome<kStream>(hn::MulAdd(first, sine, hn::Mul(second, cosine)), y + half + i, count);
    }
  }
}

template <typename T>
HWY_INLINE void Portable(const Rope<T>& work, Range range) {
  const bool streams = Streams(work);
  for (int64_t first = 0; first < work.positions; first += kPositions) {
    for (int64_t head = range.begin / work.positions * work.positions; head < range.end; head += work.positions) {
      const Range rows = {std::max(range.begin, head + first),
                          std::min(range.end, head + std::min(first + kPositions, work.positions))};
      if (streams) {
        Rows<true>(work, rows);
      } else {
        Rows<false>(work, rows);
      }
    }
  }
  if (streams) hwy::FlushStream();
}

ROOFBENCH_HIGHWAY_INSTANCES(Portable, Rope)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

ROOFBENCH_HIGHWAY_DISPATCHES(Portable, Rope)

#if ROOFBENCH_X86
#define TARGET ROOFBENCH_TARGET_AVX512_BF16
namespace avx512 {
namespace {

// Heads that share the loads of a position's angles: with eight, too many lines are written at a time.
constexpr int kHeads = 4;

TARGET inline Floats<float> LoadAngles(const float*, const float* from) { return {{_mm512_loadu_ps(from)}}; }
TARGET inline Floats<Bf16> LoadAngles(const Bf16*, const float* from) {
  return {{_mm512_loadu_ps(from), _mm512_loadu_ps(from + 16)}};
}

// Rows of a head, and those at the same positions of the heads after it.
template <bool kStream, int kTogether, typename T>
TARGET void Heads(const Rope<T>& work, Range rows) {
  const int64_t half = work.cols / 2;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t angles = row % work.positions * half;
    for (int64_t i = 0; i < half; i += kPerLine<T>) {
      const Floats<T> cosine = LoadAngles(work.x, work.cosines + angles + i);
      const Floats<T> sine = LoadAngles(work.x, work.sines + angles + i);
#pragma GCC unroll 4
      for (int64_t head = 0; head < kTogether; ++head) {
        const T* x = work.x + (row + head * work.positions) * work.x_stride + i;
        T* y = work.y + (row + head * work.positions) * work.y_stride + i;
        if constexpr (kStream) {
          PrefetchL2(reinterpret_cast<const char*>(x) + kAheadBytes);
          PrefetchL2(reinterpret_cast<const char*>(x + half) + kAheadBytes);
        }
        Floats<T> first = LoadFloats(x);
        Floats<T> second = LoadFloats(x + half);
        for (std::size_t v = 0; v < std::size(first.v); ++v) {
          const __m512 turned = _mm512_fnmadd_ps(second.v[v], sine.v[v], _mm512_mul_ps(first.v[v], cosine.v[v]));
          second.v[v] = _mm512_fmadd_ps(first.v[v], sine.v[v], _mm512_mul_ps(second.v[v], cosine.v[v]));
          first.v[v] = turned;
        }
        StoreLine<kStream>(y, Pack(first));
        StoreLine<kStream>(y + half, Pack(second));
      }
    }
  }
}

template <bool kStream, typename T>
void Share(const Rope<T>& work, Range range) {
  for (int64_t first = 0; first < work.positions; first += kPositions) {
    for (int64_t head = range.begin / work.positions * work.positions; head < range.end;) {
      const Range rows = {head + first, head + std::min(first + kPositions, work.positions)};
      if (rows.begin >= range.begin && rows.end + (kHeads - 1) * work.positions <= range.end) {
        Heads<kStream, kHeads>(work, rows);
        head += kHeads * work.positions;
      } else {
        Heads<kStream, 1>(work, {std::max(range.begin, rows.begin), std::min(range.end, rows.end)});
        head += work.positions;
      }
    }
  }
  if constexpr (kStream) _mm_sfence();
}

template <typename T>
void Share(const Rope<T>& work, Range range) {
  if (work.cols % (2 * kPerLine<T>) != 0) return Portable(work, range);
  if (Streams(work)) {
    Share<true>(work, range);
  } else {
    Share<false>(work, range);
  }
}

}  // namespace
}  // namespace avx512
#undef TARGET
#endif

template <typename Work>
static constexpr ShareVariant<Work> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, avx512::Share},
#endif
    {0, Portable},
};

ROOFBENCH_RUNS(rows, 1, Rope)

}  // namespace roofbench::kernels
#endif
