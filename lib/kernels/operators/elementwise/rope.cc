// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/rope.h"

#include <algorithm>

#include "lib/kernels/simd/dispatch.h"
#include "lib/kernels/simd/streaming.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/rope.cc"  // NOLINT(bugprone-suspicious-include)
#include "hwy/cache_control.h"
#include "lib/kernels/simd/highway_math.inc"

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
      __builtin_prefetch(reinterpret_cast<const char*>(next) + 4096, 0, 2);
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

// Some positions of all heads before the next ones: their angles stay in the cache.
template <typename T>
HWY_INLINE void Portable(const Rope<T>& work, Range range) {
  constexpr int64_t kTogether = 256;
  // In place, the lines of the result have been read. Both halves of a row begin with a line.
  const bool streams =
      work.x != work.y && work.y_stride == work.cols && StreamsRows(work.y, 2 * work.rows, work.cols / 2);
  for (int64_t first = 0; first < work.positions; first += kTogether) {
    for (int64_t head = range.begin / work.positions * work.positions; head < range.end; head += work.positions) {
      const Range rows = {std::max(range.begin, head + first),
                          std::min(range.end, head + std::min(first + kTogether, work.positions))};
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

template <typename Work>
static constexpr ShareVariant<Work> kVariants[] = {{0, Portable}};

ROOFBENCH_RUNS(rows, 1, Rope)

}  // namespace roofbench::kernels
#endif
