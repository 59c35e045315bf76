// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/rows/norm_avx512.h"

#include "lib/kernels/simd/isa.h"

#if ROOFBENCH_X86

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "lib/kernels/operators/rows/norm_statistics.h"
#include "lib/kernels/simd/avx512_lines.h"

// One loop normalizes a group of rows and sums the next group at the same time, so that memory is read all along and
// never waits for a row's statistics. The rows of a group share the loads of weight and bias, which come from the L2
// cache where the rows are long. Rows lie a multiple of 4 KiB apart as a rule, so that all lines at one column share a
// set of the L1 cache, which has eight: groups of four filled it, and were up to a seventh slower. The group after the
// next is fetched into the L2 cache meanwhile, and the next from there into the L1 shortly before it is summed.
#define TARGET ROOFBENCH_TARGET_AVX512_BF16

namespace roofbench::kernels::avx512 {
namespace {

template <typename Work>
using ElementOf = std::remove_const_t<std::remove_pointer_t<decltype(Work::x)>>;

template <typename Work>
using ResultOf = std::remove_pointer_t<decltype(Work::y)>;

template <typename Work>
inline constexpr bool kCenters = requires(Work work) {
  work.bias;
};

constexpr int kGroup = 3;
constexpr int64_t kNearBytes = 1024;

struct Sums {
  __m512 x;
  __m512 squares;
};

// The bf16 dot product adds neighbors in fp32: two elements an instruction and lane.
template <bool kWithSum>
TARGET inline void Add(const float*, __m512i line, Sums& sums) {
  const __m512 x = _mm512_castsi512_ps(line);
  if constexpr (kWithSum) sums.x = _mm512_add_ps(sums.x, x);
  sums.squares = _mm512_fmadd_ps(x, x, sums.squares);
}
template <bool kWithSum>
TARGET inline void Add(const Bf16*, __m512i line, Sums& sums) {
  const auto x = reinterpret_cast<__m512bh>(line);
  const auto ones = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f80));
  if constexpr (kWithSum) sums.x = _mm512_dpbf16_ps(sums.x, x, ones);
  sums.squares = _mm512_dpbf16_ps(sums.squares, x, x);
}

// Sums about a pivot, for rows whose mean dwarfs their deviation.
template <typename T>
TARGET RowStatistics StatisticsAbout(const T* x, int64_t n, float pivot, float eps) {
  const __m512 pivots = _mm512_set1_ps(pivot);
  Sums sums = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int64_t i = 0; i < n; i += kPerLine<T>) {
    const int64_t count = std::min(kPerLine<T>, n - i);
    const Floats<T> floats = count == kPerLine<T> ? LoadFloats(x + i) : Unpack(x, LoadFirst(x + i, count));
    for (std::size_t v = 0; v < std::size(floats.v); ++v) {
      const int64_t lanes = std::clamp<int64_t>(count - static_cast<int64_t>(v) * 16, 0, 16);
      const auto mask = static_cast<__mmask16>((1U << lanes) - 1);
      const __m512 off = _mm512_maskz_sub_ps(mask, floats.v[v], pivots);
      sums.x = _mm512_add_ps(sums.x, off);
      sums.squares = _mm512_fmadd_ps(off, off, sums.squares);
    }
  }
  return LayerStatisticsAbout(pivot, _mm512_reduce_add_ps(sums.x), _mm512_reduce_add_ps(sums.squares), n, eps);
}

template <typename Work>
TARGET inline RowStatistics Finish(const Work& work, int64_t row, const Sums& sums) {
  const float squares = _mm512_reduce_add_ps(sums.squares);
  RowStatistics statistics;
  if constexpr (kCenters<Work>) {
    const float sum = _mm512_reduce_add_ps(sums.x);
    if (Cancels(sum, squares, work.cols)) {
      statistics =
          StatisticsAbout(work.x + row * work.x_stride, work.cols, sum / static_cast<float>(work.cols), work.eps);
    } else {
      statistics = LayerStatistics(sum, squares, work.cols, work.eps);
    }
    if (work.mean != nullptr) work.mean[row] = statistics.mean + statistics.mean_low;
  } else {
    statistics = RmsStatistics(squares, work.cols, work.eps);
  }
  if (work.rstd != nullptr) work.rstd[row] = statistics.rstd;
  return statistics;
}

// What a row's elements are multiplied and shifted by, in every lane.
struct Scale {
  __m512 mean;
  __m512 rstd;
  __m512 shift;  // bf16: -mean · rstd; fp32: -mean_low · rstd
};

template <typename T>
TARGET inline Scale ScaleOf(const RowStatistics& row) {
  const double mean = static_cast<double>(row.mean_low) + (sizeof(T) == 2 ? row.mean : 0.0F);
  return {_mm512_set1_ps(row.mean), _mm512_set1_ps(row.rstd), _mm512_set1_ps(static_cast<float>(-mean * row.rstd))};
}

// bf16 numbers with a mean far above their deviation have few digits, so x · rstd - mean · rstd in one step loses none
// that they have; fp32 takes the mean off first, which is exact there.
template <bool kCentered, typename T>
TARGET inline __m512 Normalize(const T*, __m512 x, const Scale& scale) {
  if constexpr (!kCentered) {
    return _mm512_mul_ps(x, scale.rstd);
  } else if constexpr (sizeof(T) == 2) {
    return _mm512_fmadd_ps(x, scale.rstd, scale.shift);
  } else {
    return _mm512_fmadd_ps(_mm512_sub_ps(x, scale.mean), scale.rstd, scale.shift);
  }
}

// Weights for elements in the order of LoadSplit.
TARGET inline Floats<float> SplitWeights(const float*, const float* from) { return {{_mm512_loadu_ps(from)}}; }
TARGET inline Floats<Bf16> SplitWeights(const Bf16*, const float* from) {
  const __m512i twice = _mm512_slli_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), 1);
  const __m512 first = _mm512_loadu_ps(from);
  const __m512 second = _mm512_loadu_ps(from + 16);
  return {{_mm512_permutex2var_ps(first, twice, second),
           _mm512_permutex2var_ps(first, _mm512_add_epi32(twice, _mm512_set1_epi32(1)), second)}};
}

// A line of results of type Y, in memory's order, from floats in that of LoadSplit: half a line where fp32 becomes
// bf16.
TARGET inline __m512i PackResult(const float*, const Floats<float>& floats) { return PackSplit(floats); }
TARGET inline __m512i PackResult(const Bf16*, const Floats<Bf16>& floats) { return PackSplit(floats); }
TARGET inline __m256i PackResult(const Bf16*, const Floats<float>& floats) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(floats.v[0]));
}
TARGET inline void StoreEnd(float* y, int64_t count, const Floats<float>& floats) {
  StoreFirst(y, count, Pack(floats));
}
TARGET inline void StoreEnd(Bf16* y, int64_t count, const Floats<Bf16>& floats) { StoreFirst(y, count, Pack(floats)); }
TARGET inline void StoreEnd(Bf16* y, int64_t count, const Floats<float>& floats) {
  _mm256_mask_storeu_epi16(y, Mask16(count), PackResult(y, floats));
}

template <typename Work, int kRows, bool kStream, bool kWithNext>
TARGET void Pass(const Work& work, int64_t row, const RowStatistics* statistics, Sums* next_sums) {
  using T = ElementOf<Work>;
  const T* x = work.x + row * work.x_stride;
  const T* next = x + kRows * work.x_stride;
  ResultOf<Work>* y = work.y + row * work.y_stride;
  Scale scales[kRows];
  Sums sums[kRows];
  for (int r = 0; r < kRows; ++r) {
    scales[r] = ScaleOf<T>(statistics[r]);
    sums[r] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  }
  int64_t i = 0;
  for (; i + kPerLine<T> <= work.cols; i += kPerLine<T>) {
    const Floats<T> weight = SplitWeights(x, work.weight + i);
    Floats<T> bias;
    if constexpr (kCenters<Work>) bias = SplitWeights(x, work.bias + i);
    decltype(PackResult(y, Floats<T>{})) lines[kRows];
    // Every load goes before the first store: rows lie a multiple of 4 KiB apart as a rule, and a load whose low
    // address bits are those of a store in flight waits for it.
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      Floats<T> floats = LoadSplit(x + r * work.x_stride + i);
      for (std::size_t v = 0; v < std::size(floats.v); ++v) {
        const __m512 unit = Normalize<kCenters<Work>>(x, floats.v[v], scales[r]);
        if constexpr (kCenters<Work>) {
          floats.v[v] = _mm512_fmadd_ps(unit, weight.v[v], bias.v[v]);
        } else {
          floats.v[v] = _mm512_mul_ps(unit, weight.v[v]);
        }
      }
      lines[r] = PackResult(y, floats);
    }
    if constexpr (kWithNext) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const T* from = next + r * work.x_stride + i;
        PrefetchL2(from + kRows * work.x_stride);
        Prefetch(reinterpret_cast<const char*>(from) + kNearBytes);
        Add<kCenters<Work>>(from, LoadLine(from), sums[r]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) StoreLine<kStream>(y + r * work.y_stride + i, lines[r]);
  }
  if (const int64_t count = work.cols - i; count > 0) {
    for (int r = 0; r < kRows; ++r) {
      Floats<T> floats = Unpack(x, LoadFirst(x + r * work.x_stride + i, count));
      for (std::size_t v = 0; v < std::size(floats.v); ++v) {
        const int64_t at = i + static_cast<int64_t>(v) * 16;
        const int64_t lanes = std::clamp<int64_t>(work.cols - at, 0, 16);
        const auto mask = static_cast<__mmask16>((1U << lanes) - 1);
        const __m512 unit = Normalize<kCenters<Work>>(x, floats.v[v], scales[r]);
        const __m512 weight = _mm512_maskz_loadu_ps(mask, work.weight + at);
        if constexpr (kCenters<Work>) {
          floats.v[v] = _mm512_fmadd_ps(unit, weight, _mm512_maskz_loadu_ps(mask, work.bias + at));
        } else {
          floats.v[v] = _mm512_mul_ps(unit, weight);
        }
      }
      StoreEnd(y + r * work.y_stride + i, count, floats);
      if constexpr (kWithNext) {
        Add<kCenters<Work>>(next, LoadFirst(next + r * work.x_stride + i, count), sums[r]);
      }
    }
  }
  if constexpr (kWithNext) {
    for (int r = 0; r < kRows; ++r) next_sums[r] = sums[r];
  }
}

// What a pass leaves of its next rows, in the same order: a row's result is the same wherever a thread's share begins.
template <int kRows, typename Work>
TARGET void SumRows(const Work& work, int64_t row, Sums* sums) {
  using T = ElementOf<Work>;
  const T* x = work.x + row * work.x_stride;
  for (int r = 0; r < kRows; ++r) sums[r] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int64_t i = 0; i < work.cols; i += kPerLine<T>) {
    const int64_t count = std::min(kPerLine<T>, work.cols - i);
    for (int r = 0; r < kRows; ++r) {
      const T* from = x + r * work.x_stride + i;
      Add<kCenters<Work>>(from, count == kPerLine<T> ? LoadLine(from) : LoadFirst(from, count), sums[r]);
    }
  }
}

template <int kRows, bool kStream, typename Work>
TARGET void Groups(const Work& work, Range range) {
  Sums sums[kRows];
  SumRows<kRows>(work, range.begin, sums);
  for (int64_t row = range.begin; row < range.end; row += kRows) {
    RowStatistics statistics[kRows];
    for (int r = 0; r < kRows; ++r) statistics[r] = Finish(work, row + r, sums[r]);
    if (row + kRows < range.end) {
      Pass<Work, kRows, kStream, true>(work, row, statistics, sums);
    } else {
      Pass<Work, kRows, kStream, false>(work, row, statistics, sums);
    }
  }
}

template <bool kStream, typename Work>
void Rows(const Work& work, Range range) {
  const int64_t grouped = range.size() / kGroup * kGroup;
  if (grouped > 0) Groups<kGroup, kStream>(work, {range.begin, range.begin + grouped});
  if (grouped < range.size()) Groups<1, kStream>(work, {range.begin + grouped, range.end});
  if constexpr (kStream) _mm_sfence();
}

template <typename Work>
void Dispatch(const Work& work, Range range) {
  if (StreamsRows(work)) {
    Rows<true>(work, range);
  } else {
    Rows<false>(work, range);
  }
}

}  // namespace
}  // namespace roofbench::kernels::avx512

namespace roofbench::kernels {

void Avx512Share(const LayerNorm<float>& work, Range range) { avx512::Dispatch(work, range); }
void Avx512Share(const LayerNorm<Bf16>& work, Range range) { avx512::Dispatch(work, range); }
void Avx512Share(const RmsNorm<float>& work, Range range) { avx512::Dispatch(work, range); }
void Avx512Share(const RmsNorm<Bf16>& work, Range range) { avx512::Dispatch(work, range); }
void Avx512Share(const RmsNorm<float, Bf16>& work, Range range) { avx512::Dispatch(work, range); }

}  // namespace roofbench::kernels

#endif
