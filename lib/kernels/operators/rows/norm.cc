// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/rows/norm.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "lib/kernels/simd/avx512.h"
#include "lib/kernels/simd/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/rows/norm.cc"  // NOLINT(bugprone-suspicious-include)
#include "lib/kernels/simd/highway_math.inc"

#ifndef ROOFBENCH_KERNELS_NORM_STATISTICS_
#define ROOFBENCH_KERNELS_NORM_STATISTICS_
// Turns the sums over a row into the numbers that normalize its elements.
namespace roofbench::kernels {

// (x - mean - mean_low) · rstd: the mean has two parts, because where it is far larger than the deviation the rounding
// of a single one would dominate.
struct RowStatistics {
  float mean = 0;
  float mean_low = 0;
  float rstd = 0;
};

// Below this share of the mean square, a variance from a sum and a sum of squares has lost too many digits.
inline constexpr float kCancelled = 1.0F / 16;

inline bool Cancels(float sum, float squares, int64_t n) {
  const float mean = sum / static_cast<float>(n);
  const float mean_square = squares / static_cast<float>(n);
  // False for NaN, which a second pass would not cure.
  return mean_square - mean * mean < kCancelled * mean_square;
}

inline float Rstd(float variance, float eps) { return 1 / std::sqrt(variance + eps); }

inline RowStatistics RmsStatistics(float squares, int64_t n, float eps) {
  return {.rstd = Rstd(squares / static_cast<float>(n), eps)};
}

// Sums of x and x².
inline RowStatistics LayerStatistics(float sum, float squares, int64_t n, float eps) {
  const float mean = sum / static_cast<float>(n);
  const float variance = squares / static_cast<float>(n) - mean * mean;
  // Not std::max, which would turn a NaN into 0.
  return {.mean = mean, .rstd = Rstd(variance < 0 ? 0 : variance, eps)};
}

// Sums of (x - pivot) and (x - pivot)², for a pivot near the mean.
inline RowStatistics LayerStatisticsAbout(float pivot, float sum, float squares, int64_t n, float eps) {
  const float low = sum / static_cast<float>(n);
  const float variance = squares / static_cast<float>(n) - low * low;
  return {.mean = pivot, .mean_low = low, .rstd = Rstd(variance < 0 ? 0 : variance, eps)};
}

}  // namespace roofbench::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

// Four sums side by side: faster, and shorter sums lose less.
template <typename T>
HWY_INLINE void SumsAbout(const T* x, std::size_t n, float pivot, float& sum, float& squares) {
  constexpr std::size_t kSums = 4;
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const FloatVec pivots = hn::Set(d, pivot);
  FloatVec sums[kSums];
  FloatVec square_sums[kSums];
  for (std::size_t s = 0; s < kSums; ++s) sums[s] = square_sums[s] = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kSums * lanes <= n; i += kSums * lanes) {
    for (std::size_t s = 0; s < kSums; ++s) {
      const FloatVec off = hn::Sub(LoadFloats(x + i + s * lanes), pivots);
      sums[s] = hn::Add(sums[s], off);
      square_sums[s] = hn::MulAdd(off, off, square_sums[s]);
    }
  }
  for (; i < n; i += lanes) {
    const FloatVec off = KeepFirst(hn::Sub(LoadSome(x + i, n - i), pivots), n - i);
    sums[0] = hn::Add(sums[0], off);
    square_sums[0] = hn::MulAdd(off, off, square_sums[0]);
  }
  sum = SumOf(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
  squares = SumOf(hn::Add(hn::Add(square_sums[0], square_sums[1]), hn::Add(square_sums[2], square_sums[3])));
}

template <typename T>
HWY_INLINE RowStatistics StatisticsOf(const LayerNorm<T>& work, const T* x) {
  const auto n = static_cast<std::size_t>(work.cols);
  float sum = 0;
  float squares = 0;
  SumsAbout(x, n, 0, sum, squares);
  if (!Cancels(sum, squares, work.cols)) return LayerStatistics(sum, squares, work.cols, work.eps);
  const float pivot = sum / static_cast<float>(work.cols);
  SumsAbout(x, n, pivot, sum, squares);
  return LayerStatisticsAbout(pivot, sum, squares, work.cols, work.eps);
}

template <typename X, typename Y>
HWY_INLINE RowStatistics StatisticsOf(const RmsNorm<X, Y>& work, const X* x) {
  float sum = 0;
  float squares = 0;
  SumsAbout(x, static_cast<std::size_t>(work.cols), 0, sum, squares);
  return RmsStatistics(squares, work.cols, work.eps);
}

template <typename T>
HWY_INLINE FloatVec Shifted(const LayerNorm<T>& work, FloatVec scaled, std::size_t i, std::size_t count) {
  return hn::Add(scaled, LoadSome(work.bias + i, count));
}
template <typename X, typename Y>
HWY_INLINE FloatVec Shifted(const RmsNorm<X, Y>&, FloatVec scaled, std::size_t, std::size_t) {
  return scaled;
}

template <typename Work>
HWY_INLINE void Portable(const Work& work, Range range) {
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const auto n = static_cast<std::size_t>(work.cols);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const auto* x = work.x + row * work.cols;
    auto* y = work.y + row * work.cols;
    const RowStatistics statistics = StatisticsOf(work, x);
    if constexpr (requires { work.rstd; }) {
      if (work.rstd != nullptr) work.rstd[row] = statistics.rstd;
    }
    const FloatVec mean = hn::Set(d, statistics.mean);
    const FloatVec rstd = hn::Set(d, statistics.rstd);
    const FloatVec shift = hn::Set(d, -statistics.mean_low * statistics.rstd);
    for (std::size_t i = 0; i < n; i += lanes) {
      const FloatVec unit = hn::MulAdd(hn::Sub(LoadSome(x + i, n - i), mean), rstd, shift);
      const FloatVec scaled = hn::Mul(unit, LoadSome(work.weight + i, n - i));
      StoreSome(Shifted(work, scaled, i, n - i), y + i, n - i);
    }
  }
}

// Computes dx of the rows of `range`, and adds their parts of dweight and dbias.
template <bool kCenters, typename T>
HWY_INLINE void GradientRows(const NormGradient<T>& work, Range range) {
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const auto n = static_cast<std::size_t>(work.cols);
  const float per_column = 1 / static_cast<float>(work.cols);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* x = work.x + row * work.cols;
    const T* dy = work.dy + row * work.cols;
    T* dx = work.dx + row * work.cols;
    const FloatVec mean = hn::Set(d, kCenters ? work.mean[row] : 0);
    const FloatVec rstd = hn::Set(d, work.rstd[row]);
    const auto unit = [&](FloatVec value) HWY_ATTR { return hn::Mul(kCenters ? hn::Sub(value, mean) : value, rstd); };
    FloatVec sums = hn::Zero(d);
    FloatVec products = hn::Zero(d);
    for (std::size_t i = 0; i < n; i += lanes) {
      // Past the row's end dy is zero, and so are the gradient and its product.
      const FloatVec gradient = hn::Mul(LoadSome(dy + i, n - i), LoadSome(work.weight + i, n - i));
      const FloatVec u = KeepFirst(unit(LoadSome(x + i, n - i)), n - i);
      if constexpr (kCenters) sums = hn::Add(sums, gradient);
      products = hn::MulAdd(gradient, u, products);
    }
    const FloatVec shift = hn::Set(d, kCenters ? -SumOf(sums) * per_column : 0);
    const FloatVec slope = hn::Set(d, SumOf(products) * per_column);
    for (std::size_t i = 0; i < n; i += lanes) {
      const std::size_t count = n - i;
      const FloatVec out = LoadSome(dy + i, count);
      const FloatVec u = unit(LoadSome(x + i, count));
      FloatVec gradient = hn::NegMulAdd(u, slope, hn::Mul(out, LoadSome(work.weight + i, count)));
      if constexpr (kCenters) gradient = hn::Add(gradient, shift);
      StoreSome(hn::MulAdd(out, u, LoadSome(work.dweight + i, count)), work.dweight + i, count);
      if constexpr (kCenters) StoreSome(hn::Add(out, LoadSome(work.dbias + i, count)), work.dbias + i, count);
      StoreSome(hn::Mul(gradient, rstd), dx + i, count);
    }
  }
}

template <typename T>
HWY_INLINE void Portable(const NormGradient<T>& work, Range range) {
  if (work.mean != nullptr) {
    GradientRows<true>(work, range);
  } else {
    GradientRows<false>(work, range);
  }
}

ROOFBENCH_HIGHWAY_INSTANCES(Portable, LayerNorm)
ROOFBENCH_HIGHWAY_INSTANCES(Portable, RmsNorm)
ROOFBENCH_HIGHWAY_INSTANCE(Portable, RmsNormRounded, RmsNorm<float, Bf16>)
ROOFBENCH_HIGHWAY_INSTANCES(Portable, NormGradient)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

#if ROOFBENCH_X86
// One loop normalizes a group of rows and sums the next group at the same time, so that it reads memory continuously
// and does not wait for a row's statistics. The rows of a group share the loads of weight and bias, which come from the
// L2 cache where the rows are long. Rows usually lie a multiple of 4 KiB apart, so that all lines at one column share a
// set of the L1 cache, which has eight ways: groups of four filled it, and were up to a seventh slower. Meanwhile the
// group after the next is fetched into the L2 cache, and the next from there into the L1 shortly before it is summed.
// bf16 rows that fit into the L1 cache together with weight and bias are faster one by one.
#define TARGET ROOFBENCH_TARGET_AVX512_BF16

namespace avx512 {
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
constexpr int64_t kAheadBytes = 16384;
constexpr int64_t kCacheBytes = 49152;  // a usual first level

struct Sums {
  __m512 x;
  __m512 squares;
};

// The bf16 dot product adds neighbors in fp32: two elements per instruction and lane.
template <bool kWithSum>
TARGET inline void Add(const float*, __m512i line, Sums& sums) {
  const __m512 x = _mm512_castsi512_ps(line);
  if constexpr (kWithSum) sums.x = _mm512_add_ps(sums.x, x);
  sums.squares = _mm512_fmadd_ps(x, x, sums.squares);
}
template <bool kWithSum>
TARGET inline void Add(const Bf16*, __m512i line, Sums& sums) {
  if constexpr (kWithSum) sums.x = PlusDot(sums.x, line, _mm512_set1_epi16(0x3f80));  // ones
  sums.squares = PlusDot(sums.squares, line, line);
}

// Sums about a pivot, for rows whose mean is much larger than their deviation.
template <typename T>
TARGET RowStatistics StatisticsAbout(const T* x, int64_t n, float pivot, float eps) {
  const __m512 pivots = _mm512_set1_ps(pivot);
  Sums sums = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int64_t i = 0; i < n; i += kPerLine<T>) {
    const int64_t count = std::min(kPerLine<T>, n - i);
    const Floats<T> floats = count == kPerLine<T> ? LoadFloats(x + i) : Unpack(x, LoadFirst(x + i, count));
    for (std::size_t v = 0; v < std::size(floats.v); ++v) {
      const __mmask16 mask = Mask16(count - static_cast<int64_t>(v) * 16);
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
  if constexpr (kCenters<Work>) {
    const float sum = _mm512_reduce_add_ps(sums.x);
    if (!Cancels(sum, squares, work.cols)) return LayerStatistics(sum, squares, work.cols, work.eps);
    return StatisticsAbout(work.x + row * work.cols, work.cols, sum / static_cast<float>(work.cols), work.eps);
  } else {
    const RowStatistics statistics = RmsStatistics(squares, work.cols, work.eps);
    if (work.rstd != nullptr) work.rstd[row] = statistics.rstd;
    return statistics;
  }
}

// The factor and the shift of a row's elements, in every lane.
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
// of them; fp32 subtracts the mean first, which is exact there.
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

// Packs a line of results of type Y, in memory's order, from floats in that of LoadSplit: half a line where fp32
// becomes bf16.
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
  const T* x = work.x + row * work.cols;
  const T* next = x + kRows * work.cols;
  ResultOf<Work>* y = work.y + row * work.cols;
  // What is not streamed is probably in a cache, where fetching beyond the end of a share would take lines from others.
  const int64_t ahead = std::max(kRows * work.cols, kStream ? kAheadBytes / static_cast<int64_t>(sizeof(T)) : 0);
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
    // Every load precedes the first store: rows usually lie a multiple of 4 KiB apart, and a load whose low address
    // bits are those of a store in flight waits for it.
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      Floats<T> floats = LoadSplit(x + r * work.cols + i);
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
        const T* from = next + r * work.cols + i;
        PrefetchL2(from + ahead);
        Prefetch(reinterpret_cast<const char*>(from) + kNearBytes);
        Add<kCenters<Work>>(from, LoadLine(from), sums[r]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) StoreLine<kStream>(y + r * work.cols + i, lines[r]);
  }
  if (const int64_t count = work.cols - i; count > 0) {
    for (int r = 0; r < kRows; ++r) {
      Floats<T> floats = Unpack(x, LoadFirst(x + r * work.cols + i, count));
      for (std::size_t v = 0; v < std::size(floats.v); ++v) {
        const int64_t at = i + static_cast<int64_t>(v) * 16;
        const __mmask16 mask = Mask16(work.cols - at);
        const __m512 unit = Normalize<kCenters<Work>>(x, floats.v[v], scales[r]);
        const __m512 weight = _mm512_maskz_loadu_ps(mask, work.weight + at);
        if constexpr (kCenters<Work>) {
          floats.v[v] = _mm512_fmadd_ps(unit, weight, _mm512_maskz_loadu_ps(mask, work.bias + at));
        } else {
          floats.v[v] = _mm512_mul_ps(unit, weight);
        }
      }
      StoreEnd(y + r * work.cols + i, count, floats);
      if constexpr (kWithNext) {
        Add<kCenters<Work>>(next, LoadFirst(next + r * work.cols + i, count), sums[r]);
      }
    }
  }
  if constexpr (kWithNext) {
    for (int r = 0; r < kRows; ++r) next_sums[r] = sums[r];
  }
}

// Computes the sums that a pass leaves for its next rows, in the same order: a row's result does not depend on where a
// thread's share begins.
template <int kRows, typename Work>
TARGET void SumRows(const Work& work, int64_t row, Sums* sums) {
  using T = ElementOf<Work>;
  const T* x = work.x + row * work.cols;
  for (int r = 0; r < kRows; ++r) sums[r] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int64_t i = 0; i < work.cols; i += kPerLine<T>) {
    const int64_t count = std::min(kPerLine<T>, work.cols - i);
    for (int r = 0; r < kRows; ++r) {
      const T* from = x + r * work.cols + i;
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
  constexpr bool kHasBias = kCenters<Work>;
  constexpr std::size_t kElementBytes = sizeof(ElementOf<Work>);
  // Of a row, the next one, weight and bias. From the caches, rows with a bias are faster in groups in any case.
  constexpr auto kColumnBytes = static_cast<int64_t>(2 * kElementBytes + (kHasBias ? 2 : 1) * sizeof(float));
  const bool single = kElementBytes == 2 && (kStream || !kHasBias) && work.cols * kColumnBytes <= kCacheBytes;
  const int64_t grouped = single ? 0 : range.size() / kGroup * kGroup;
  if (grouped > 0) Groups<kGroup, kStream>(work, {range.begin, range.begin + grouped});
  if (grouped < range.size()) Groups<1, kStream>(work, {range.begin + grouped, range.end});
  if constexpr (kStream) _mm_sfence();
}

template <typename Work>
void Share(const Work& work, Range range) {
  if (StreamsRows(work.y, work.rows, work.cols)) {
    Rows<true>(work, range);
  } else {
    Rows<false>(work, range);
  }
}

// Gradients of a group of rows, which share the loads of weights and of the sums over rows, in two passes: the sums of
// each row, then all else. Each pass fetches one operand of the next group into the L2 cache, so that both keep memory
// busy.
constexpr int kGradientGroup = 2;
// Up to here, weights and sums stay in the L1 cache, and streamed rows are faster one by one.
constexpr int64_t kSingleColumns = 1024;

struct RowGradient {
  __m512 mean;
  __m512 rstd;
  __m512 sum;      // of g; then -mean(g)
  __m512 product;  // sum of g · u; then its mean
};

// A line's elements, zeros after the first `count`.
template <bool kWhole, typename T>
TARGET inline Floats<T> LoadEnd(const T* from, int64_t count) {
  return kWhole ? LoadFloats(from) : Unpack(from, LoadFirst(from, count));
}
template <bool kWhole>
TARGET inline __m512 LoadColumns(const float* from, int64_t count) {
  return kWhole ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(Mask16(count), from);
}
template <bool kWhole>
TARGET inline void StoreColumns(float* to, int64_t count, __m512 value) {
  if constexpr (kWhole) {
    _mm512_storeu_ps(to, value);
  } else {
    _mm512_mask_storeu_ps(to, Mask16(count), value);
  }
}

template <bool kCentered>
TARGET inline __m512 Unit(const RowGradient& row, __m512 x) {
  return _mm512_mul_ps(kCentered ? _mm512_sub_ps(x, row.mean) : x, row.rstd);
}

template <bool kCentered, bool kWhole, int kRows, typename T>
TARGET inline void SumColumns(const NormGradient<T>& work, int64_t row, int64_t i, RowGradient (&rows)[kRows]) {
  Floats<T> x[kRows];
  Floats<T> dy[kRows];
  for (int r = 0; r < kRows; ++r) {
    const int64_t at = (row + r) * work.cols + i;
    x[r] = LoadEnd<kWhole>(work.x + at, work.cols - i);
    dy[r] = LoadEnd<kWhole>(work.dy + at, work.cols - i);
    if constexpr (kWhole) PrefetchL2(work.x + at + kRows * work.cols);
  }
  for (std::size_t v = 0; v < std::size(x[0].v); ++v) {
    const int64_t column = i + static_cast<int64_t>(v) * 16;
    const __m512 weight = LoadColumns<kWhole>(work.weight + column, work.cols - column);
    for (int r = 0; r < kRows; ++r) {
      // Past the row's end dy is zero, and so is g; but not g · u where u is not finite.
      const __mmask16 mask = kWhole ? 0xffff : Mask16(work.cols - column);
      const __m512 g = _mm512_mul_ps(dy[r].v[v], weight);
      if constexpr (kCentered) rows[r].sum = _mm512_add_ps(rows[r].sum, g);
      rows[r].product = _mm512_mask3_fmadd_ps(g, Unit<kCentered>(rows[r], x[r].v[v]), rows[r].product, mask);
    }
  }
}

template <bool kCentered, bool kStream, bool kWhole, int kRows, typename T>
TARGET inline void StoreColumnsOf(const NormGradient<T>& work, int64_t row, int64_t i,
                                  const RowGradient (&rows)[kRows]) {
  Floats<T> x[kRows];
  Floats<T> dx[kRows];  // dy at first
  for (int r = 0; r < kRows; ++r) {
    const int64_t at = (row + r) * work.cols + i;
    x[r] = LoadEnd<kWhole>(work.x + at, work.cols - i);
    dx[r] = LoadEnd<kWhole>(work.dy + at, work.cols - i);
    if constexpr (kWhole) PrefetchL2(work.dy + at + kRows * work.cols);
  }
  for (std::size_t v = 0; v < std::size(x[0].v); ++v) {
    const int64_t column = i + static_cast<int64_t>(v) * 16;
    const int64_t count = work.cols - column;
    const __m512 weight = LoadColumns<kWhole>(work.weight + column, count);
    __m512 dweight = LoadColumns<kWhole>(work.dweight + column, count);
    __m512 dbias = LoadColumns<kWhole>(work.dbias + column, count);
    for (int r = 0; r < kRows; ++r) {
      const __m512 dy = dx[r].v[v];
      const __m512 unit = Unit<kCentered>(rows[r], x[r].v[v]);
      dweight = _mm512_fmadd_ps(dy, unit, dweight);
      if constexpr (kCentered) dbias = _mm512_add_ps(dbias, dy);
      const __m512 g = kCentered ? _mm512_fmadd_ps(dy, weight, rows[r].sum) : _mm512_mul_ps(dy, weight);
      dx[r].v[v] = _mm512_mul_ps(_mm512_fnmadd_ps(unit, rows[r].product, g), rows[r].rstd);
    }
    StoreColumns<kWhole>(work.dweight + column, count, dweight);
    if constexpr (kCentered) StoreColumns<kWhole>(work.dbias + column, count, dbias);
  }
  for (int r = 0; r < kRows; ++r) {
    T* const to = work.dx + (row + r) * work.cols + i;
    if constexpr (kWhole) {
      StoreLine<kStream>(to, Pack(dx[r]));
    } else {
      StoreFirst(to, work.cols - i, Pack(dx[r]));
    }
  }
}

template <bool kCentered, bool kStream, int kRows, typename T>
TARGET void GradientGroups(const NormGradient<T>& work, Range range) {
  const __m512 per_column = _mm512_set1_ps(1 / static_cast<float>(work.cols));
  for (int64_t row = range.begin; row < range.end; row += kRows) {
    RowGradient rows[kRows];
    for (int r = 0; r < kRows; ++r) {
      rows[r] = {_mm512_set1_ps(kCentered ? work.mean[row + r] : 0), _mm512_set1_ps(work.rstd[row + r]),
                 _mm512_setzero_ps(), _mm512_setzero_ps()};
    }
    int64_t i = 0;
    for (; i + kPerLine<T> <= work.cols; i += kPerLine<T>) SumColumns<kCentered, true>(work, row, i, rows);
    if (i < work.cols) SumColumns<kCentered, false>(work, row, i, rows);
    for (RowGradient& of : rows) {
      of.sum = _mm512_mul_ps(_mm512_set1_ps(-_mm512_reduce_add_ps(of.sum)), per_column);
      of.product = _mm512_mul_ps(_mm512_set1_ps(_mm512_reduce_add_ps(of.product)), per_column);
    }
    for (i = 0; i + kPerLine<T> <= work.cols; i += kPerLine<T>) {
      StoreColumnsOf<kCentered, kStream, true>(work, row, i, rows);
    }
    if (i < work.cols) StoreColumnsOf<kCentered, kStream, false>(work, row, i, rows);
  }
}

template <bool kCentered, bool kStream, typename T>
void GradientRows(const NormGradient<T>& work, Range range) {
  const bool single = kStream && work.cols <= kSingleColumns;
  const int64_t middle = single ? range.begin : range.begin + range.size() / kGradientGroup * kGradientGroup;
  GradientGroups<kCentered, kStream, kGradientGroup>(work, {range.begin, middle});
  GradientGroups<kCentered, kStream, 1>(work, {middle, range.end});
  if constexpr (kStream) _mm_sfence();
}

template <typename T>
void Share(const NormGradient<T>& work, Range range) {
  constexpr auto kRows = [](bool streams, bool centers) {
    if (streams) return centers ? GradientRows<true, true, T> : GradientRows<false, true, T>;
    return centers ? GradientRows<true, false, T> : GradientRows<false, false, T>;
  };
  // In place, the lines of the result have been read.
  const bool streams = work.dx != work.dy && StreamsRows(work.dx, work.rows, work.cols);
  kRows(streams, work.mean != nullptr)(work, range);
}

}  // namespace
}  // namespace avx512
#undef TARGET
#endif

ROOFBENCH_HIGHWAY_DISPATCHES(Portable, LayerNorm)
ROOFBENCH_HIGHWAY_DISPATCHES(Portable, RmsNorm)
ROOFBENCH_HIGHWAY_DISPATCH(Portable, RmsNormRounded, RmsNorm<float, Bf16>)
ROOFBENCH_HIGHWAY_DISPATCHES(Portable, NormGradient)

namespace {

template <typename Work>
constexpr ShareVariant<Work> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, avx512::Share},
#endif
    {0, Portable},
};

template <typename T>
void RunGradient(const NormGradient<T>& work, const ParallelFor& parallel_for) {
  constexpr int64_t kGrain = 16;  // columns: a cache line of sums belongs to one thread
  const int shares = parallel_for.threads();
  const auto gradient = BestVariant<kVariants<NormGradient<T>>>();
  // Added share by share, so that a result does not depend on which thread took which.
  parallel_for(shares, [&](Range range) {
    for (int64_t share = range.begin; share < range.end; ++share) {
      NormGradient<T> own = work;
      own.dweight = work.scratch + share * 2 * work.cols;
      own.dbias = own.dweight + work.cols;
      std::fill_n(own.dweight, 2 * work.cols, 0.0F);
      gradient(own, Share(work.rows, 1, static_cast<int>(share), shares));
    }
  });
  parallel_for(work.cols, kGrain, [&](Range range) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      float weight = 0;
      float bias = 0;
      for (int64_t share = 0; share < shares; ++share) {
        weight += work.scratch[share * 2 * work.cols + i];
        bias += work.scratch[(share * 2 + 1) * work.cols + i];
      }
      work.dweight[i] = weight;
      if (work.dbias != nullptr) work.dbias[i] = bias;
    }
  });
}

}  // namespace

ROOFBENCH_RUNS(rows, 1, LayerNorm)
ROOFBENCH_RUNS(rows, 1, RmsNorm)
ROOFBENCH_RUN(rows, 1, RmsNorm<float, Bf16>)
void Run(const NormGradient<float>& work, const ParallelFor& parallel_for) { RunGradient(work, parallel_for); }
void Run(const NormGradient<Bf16>& work, const ParallelFor& parallel_for) { RunGradient(work, parallel_for); }

}  // namespace roofbench::kernels
#endif
