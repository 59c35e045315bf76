// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/gemv.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "lib/kernels/operators/products/fixed_point.h"
#include "lib/kernels/operators/products/gemv_rows.h"
#include "lib/kernels/operators/products/tile_product.h"
#include "lib/kernels/simd/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/products/gemv.cc"  // NOLINT(bugprone-suspicious-include)
#include "lib/kernels/simd/highway_math.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {

namespace {

// Sum of w[i] · x[i]. Eight independent sums hide the latency of an addition.
template <typename W, typename X>
HWY_INLINE float Dot(const W* w, const X* x, int64_t k) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(FloatLanes());
  constexpr int64_t kSums = 8;
  FloatVec sums[kSums];
  for (FloatVec& sum : sums) sum = hn::Zero(d);
  const auto add = [&](FloatVec& sum, int64_t at)
                       HWY_ATTR { sum = hn::MulAdd(LoadFloats(w + at), LoadFloats(x + at), sum); };
  int64_t i = 0;
  for (; i + kSums * lanes <= k; i += kSums * lanes) {
    for (int64_t s = 0; s < kSums; ++s) add(sums[s], i + s * lanes);
  }
  for (; i + lanes <= k; i += lanes) add(sums[0], i);
  for (int64_t distance = 1; distance < kSums; distance *= 2) {
    for (int64_t s = 0; s < kSums; s += 2 * distance) sums[s] = hn::Add(sums[s], sums[s + distance]);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, sums[0]));
  for (; i < k; ++i) sum += ToFloat(w[i]) * ToFloat(x[i]);
  return sum;
}

template <typename T, typename X>
HWY_INLINE void PlainRows(const T* weight, int64_t k, const X* x, float* y, Range rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) *y++ = Dot(weight + row * k, x, k);
}

void Fp32Rows(const Fp32Weight& weight, const float* x, float* y, Range rows) {
  PlainRows(weight.data, weight.k, x, y, rows);
}

void Bf16Rows(const Bf16Weight& weight, const Bf16* x, float* y, Range rows) {
  PlainRows(weight.data, weight.k, x, y, rows);
}

void Int8Rows(const Int8Weight& weight, const float* x, float* y, Range rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    *y++ = Dot(weight.data + row * weight.k, x, weight.k) * weight.scales[row];
  }
}

// The rows of one tile that one vector holds, from `lane` on: each lane sums one row.
HWY_INLINE void Int4Lanes(const Int4Weight& weight, const std::byte* tile, int64_t lane, const float* x, float* y) {
  const hn::CappedTag<float, kInt4TileRows> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  const hn::RebindToSigned<decltype(d)> integers;
  const auto mask = hn::Set(words, 15);
  const auto eight = hn::Set(integers, 8);
  const auto load = [&](const std::byte* at)
                        HWY_ATTR { return hn::LoadU(words, reinterpret_cast<const uint32_t*>(at) + lane); };
  auto sum = hn::Zero(d);
  for (int64_t g = 0; g < weight.k / weight.group; ++g, tile += Int4GroupBytes(weight.group)) {
    const auto scale_zero = load(tile);
    const auto scale = hn::BitCast(d, hn::ShiftLeft<16>(scale_zero));
    const auto zero = hn::BitCast(d, hn::And(scale_zero, hn::Set(words, 0xffff0000U)));
    for (int64_t word = 0; word < weight.group / 8; ++word) {
      auto bits = load(tile + 4 * kInt4TileRows * (1 + word));
      const float* const columns = x + g * weight.group + 8 * word;
      for (int64_t b = 0; b < 8; ++b) {
        // Lower halves of the four bytes belong to the first four columns, upper halves to the other four.
        const int64_t column = b / 2 + 4 * (b % 2);
        const auto q = hn::Sub(hn::BitCast(integers, hn::And(bits, mask)), eight);
        const auto w = hn::MulAdd(hn::ConvertTo(d, q), scale, zero);
        sum = hn::MulAdd(w, hn::Set(d, columns[column]), sum);
        bits = hn::ShiftRight<4>(bits);
      }
    }
  }
  hn::StoreU(sum, d, y);
}

void Int4Rows(const Int4Weight& weight, const float* x, float* y, Range rows) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::CappedTag<float, kInt4TileRows>()));
  for (int64_t row = rows.begin; row < rows.end; row += kInt4TileRows) {
    const std::byte* const tile = weight.data + row / kInt4TileRows * Int4TileBytes(weight.k, weight.group);
    float results[kInt4TileRows];
    for (int64_t lane = 0; lane < kInt4TileRows; lane += lanes) Int4Lanes(weight, tile, lane, x, results + lane);
    const int64_t used = std::min(kInt4TileRows, rows.end - row);
    y = std::copy_n(results, used, y);
  }
}

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

// Computes in fp32, on every processor.
#define ROOFBENCH_PORTABLE_ROWS(name, Weight, X)                                     \
  HWY_EXPORT(name);                                                                  \
  static void PortableRows(const Weight& weight, const X* x, float* y, Range rows) { \
    HWY_DYNAMIC_DISPATCH(name)(weight, x, y, rows);                                  \
  }
ROOFBENCH_PORTABLE_ROWS(Fp32Rows, Fp32Weight, float)
ROOFBENCH_PORTABLE_ROWS(Bf16Rows, Bf16Weight, Bf16)
ROOFBENCH_PORTABLE_ROWS(Int8Rows, Int8Weight, float)
ROOFBENCH_PORTABLE_ROWS(Int4Rows, Int4Weight, float)
#undef ROOFBENCH_PORTABLE_ROWS

namespace {

// Rows whose results are computed before they are converted and stored. With several vectors, all but the first read
// the rows of a chunk from a cache: they have to fit one.
constexpr int64_t kMostChunkRows = 64;
constexpr int64_t kChunkBytes = int64_t{256} << 10;
// A single vector takes as many rows as make streams long: each end of one costs the time to find the next (two-core
// EPYC, Zen 5, fast memory: rows of 4096 in int8 took 111 us by 64, 103 by 1024; 2026-11-27).
constexpr int64_t kLongChunkRows = 1024;

template <typename Weight>
int64_t RowBytes(const Weight& weight) {
  return weight.k * static_cast<int64_t>(sizeof(*weight.data));
}
int64_t RowBytes(const Int4Weight& weight) { return Int4TileBytes(weight.k, weight.group) / kInt4TileRows; }

template <typename Weight>
int64_t ChunkRows(const Weight& weight) {
  const int64_t rows = kChunkBytes / std::max<int64_t>(1, RowBytes(weight)) / kInt4TileRows * kInt4TileRows;
  return std::clamp(rows, kInt4TileRows, kMostChunkRows);
}

int64_t GroupOf(const Int8Weight&) { return 0; }
int64_t GroupOf(const Int4Weight& weight) { return weight.group; }

// The product of a vector with rows, and of several at once; null where they are multiplied one after the other.
template <typename Weight, typename X>
struct PlainProduct {
  void (*rows)(const Weight& weight, const X* x, float* y, Range rows) = nullptr;
  const TileLinearKernels* vectors = nullptr;
};
template <typename Weight, typename X>
constexpr IsaVariant<PlainProduct<Weight, X>> kPlainVariants[] = {{0, {PortableRows}}};
#if ROOFBENCH_X86
template <>
constexpr IsaVariant<PlainProduct<Bf16Weight, Bf16>> kPlainVariants<Bf16Weight, Bf16>[] = {
    {kAvx512Bf16 | kFewStreams, {Avx512FewStreams, &kTileLinearKernels<VectorTiles>}},
    {kAvx512Bf16, {Avx512Rows, &kTileLinearKernels<VectorTiles>}},
    {0, {PortableRows}}};
#endif

// The product of a vector in fixed point with rows, and of several at once; null pointers where the processor
// multiplies in fp32.
template <typename Weight>
struct FixedPointProduct {
  void (*rows)(const Weight& weight, const FixedPoint& x, float* y, Range rows) = nullptr;
  void (*vectors)(const Weight& weight, const FixedPoint* const* x, int64_t vectors, float* y, int64_t y_stride,
                  Range rows, const FetchPlan& fetch) = nullptr;
};
template <typename Weight>
constexpr IsaVariant<FixedPointProduct<Weight>> kFixedPointVariants[] = {{0, {}}};
#if ROOFBENCH_X86
template <>
constexpr IsaVariant<FixedPointProduct<Int8Weight>> kFixedPointVariants<Int8Weight>[] = {
    {kAvx512Vnni | kFewStreams, {Avx512FewStreams, Avx512Vectors}},
    {kAvx512Vnni, {Avx512Rows, Avx512Vectors}},
    {0, {}}};
template <>
constexpr IsaVariant<FixedPointProduct<Int4Weight>> kFixedPointVariants<Int4Weight>[] = {
    {kAvx512Vnni | kFewStreams, {Avx512FewStreams, Avx512Vectors}},
    {kAvx512Vnni, {Avx512Rows, Avx512Vectors}},
    {0, {}}};
#endif

void Store(const float* from, int64_t count, float* to) { std::copy_n(from, count, to); }
void Store(const float* from, int64_t count, Bf16* to) { std::transform(from, from + count, to, ToBf16); }

// rows(vector, y, chunk) for each vector and chunk of rows.
template <typename Weight, typename X, typename Y, typename Rows>
void OneByOne(const Gemv<Weight, X, Y>& work, Range rows, Rows multiply) {
  const int64_t step = work.m == 1 ? kLongChunkRows : ChunkRows(work.weight);
  for (int64_t row = rows.begin; row < rows.end; row += step) {
    const Range chunk{row, std::min(row + step, rows.end)};
    for (int64_t i = 0; i < work.m; ++i) {
      float results[kLongChunkRows];
      multiply(i, results, chunk);
      Store(results, chunk.size(), work.y + i * work.weight.n + row);
    }
  }
}

// Vectors from `first` on, as many at a time as a variant takes, in even shares. Memory stays busy: where there are
// several shares, those of a chunk fetch the next one.
template <typename Weight, typename Y>
void FewByFew(const Gemv<Weight, Bf16, Y>& work, const FixedPoint* const* x, int64_t first, Range rows) {
  constexpr int64_t kMost = kMostVectors<Weight>;
  const FixedPointProduct<Weight> product = BestVariant<kFixedPointVariants<Weight>>();
  const int64_t few = work.m - first;
  const int64_t shares = CeilDiv(few, kMost);
  const int64_t step = ChunkRows(work.weight);
  for (int64_t row = rows.begin; row < rows.end; row += step) {
    const Range chunk{row, std::min(row + step, rows.end)};
    const bool is_followed = row + 2 * step <= rows.end;
    for (int64_t share = 0; share < shares; ++share) {
      const Range vectors{first + share * few / shares, first + (share + 1) * few / shares};
      const FetchPlan fetch = {.ahead = shares == 1 ? kRowAhead : step * RowBytes(work.weight),
                               .share = shares == 1 || is_followed ? share : shares,
                               .shares = shares};
      float results[kMost * kMostChunkRows];
      if (vectors.size() == 1) {
        product.rows(work.weight, *x[vectors.begin], results, chunk);
      } else {
        product.vectors(work.weight, x + vectors.begin, vectors.size(), results, kMostChunkRows, chunk, fetch);
      }
      for (int64_t v = 0; v < vectors.size(); ++v) {
        Store(results + v * kMostChunkRows, chunk.size(), work.y + (vectors.begin + v) * work.weight.n + row);
      }
    }
  }
}

// The vectors of plain weights: as they lie, and packed where several are multiplied at once. The memory stays with the
// thread that packs them, so that a loop of products does not allocate; the others read it.
template <typename X>
struct PlainVectors {
  const TileLinearKernels* tiles = nullptr;
  const std::byte* packed = nullptr;
};
PlainVectors<float> Prepare(const Gemv<Fp32Weight, float, float>& /*work*/, const ParallelFor& /*parallel*/) {
  return {};
}
template <typename Y>
PlainVectors<Bf16> Prepare(const Gemv<Bf16Weight, Bf16, Y>& work, const ParallelFor& parallel) {
  const TileLinearKernels* const tiles = work.m > 1 ? BestVariant<kPlainVariants<Bf16Weight, Bf16>>().vectors : nullptr;
  if (tiles == nullptr) return {};
  thread_local std::vector<Line<std::byte>> packed;
  const int64_t steps = TileSteps(work.weight.k * int64_t{sizeof(Bf16)});
  packed.resize(static_cast<std::size_t>(PanelBytes(work.m, steps) / kLineBytes));
  tiles->pack(work.x, work.m, work.weight.k, packed.data()->values, parallel);
  return {tiles, packed.data()->values};
}
template <Quantized Weight, typename Y>
const FixedPointVectors& Prepare(const Gemv<Weight, Bf16, Y>& work, const ParallelFor& parallel) {
  thread_local FixedPointVectors vectors;
  vectors.Convert(work.x, work.m, work.weight.k, GroupOf(work.weight), parallel);
  return vectors;
}

template <typename Weight, typename X, typename Y>
void RunRows(const Gemv<Weight, X, Y>& work, const PlainVectors<X>& x, Range rows) {
  const auto [data, n, k] = work.weight;
  if constexpr (std::is_same_v<Weight, Bf16Weight>) {
    if (x.tiles != nullptr) {
      const TileLinear<Y> linear = {.x = x.packed, .w = data, .y = work.y, .m = work.m, .n = n, .k = k};
      if constexpr (std::is_same_v<Y, float>) return x.tiles->run_columns_to_floats(linear, rows);
      if constexpr (std::is_same_v<Y, Bf16>) return x.tiles->run_columns(linear, rows);
    }
  }
  OneByOne(work, rows, [&](int64_t vector, float* y, Range chunk) {
    BestVariant<kPlainVariants<Weight, X>>().rows(work.weight, work.x + vector * work.weight.k, y, chunk);
  });
}
// Vectors whose forms are kept at a time.
constexpr int64_t kMostTogether = 64;

// run(part) for kMostTogether vectors at a time.
template <typename Weight, typename X, typename Y, typename Run>
void ForParts(Gemv<Weight, X, Y> work, Run run) {
  for (int64_t left = work.m; left > 0; left -= work.m) {
    work.m = std::min(left, kMostTogether);
    run(work);
    work.x += work.m * work.weight.k;
    work.y += work.m * work.weight.n;
  }
}

// Empty sums (k = 0): vectors then have no memory for the kernels to point into.
template <typename Weight, typename X, typename Y>
void Clear(const Gemv<Weight, X, Y>& work, Range rows) {
  for (int64_t i = 0; i < work.m; ++i) std::fill_n(work.y + i * work.weight.n + rows.begin, rows.size(), Y{});
}

}  // namespace

template <Quantized Weight, typename Y>
void RunRows(const Gemv<Weight, Bf16, Y>& work, const FixedPointVectors& x, Range rows) {
  if (x.are_fixed() && work.m > 1) {
    const int64_t by_tiles = x.columns().vectors();
    if constexpr (std::is_same_v<Weight, Int8Weight>) {
      if (by_tiles > 0) x.columns().RunRows(work.weight, rows, work.y);
    }
    if (by_tiles < work.m) FewByFew(work, x.fixed(), by_tiles, rows);
    return;
  }
  OneByOne(work, rows, [&](int64_t vector, float* y, Range chunk) {
    const FixedPoint* const fixed = x.fixed()[vector];
    if (fixed == nullptr) return PortableRows(work.weight, x.floats(vector), y, chunk);
    BestVariant<kFixedPointVariants<Weight>>().rows(work.weight, *fixed, y, chunk);
  });
}

template <typename Weight, typename X, typename Y>
void RunRows(const Gemv<Weight, X, Y>& work, Range rows) {
  if (work.weight.k == 0) return Clear(work, rows);
  ForParts(work, [&](const auto& part) { RunRows(part, Prepare(part, SerialFor()), rows); });
}

template <typename Weight, typename X, typename Y>
void Run(const Gemv<Weight, X, Y>& work, const ParallelFor& parallel_for) {
  if (work.weight.k == 0) return Clear(work, {0, work.weight.n});
  ForParts(work, [&](const auto& part) {
    const auto& x = Prepare(part, parallel_for);
    parallel_for(part.weight.n, kRowGrain<Weight>, [&](Range rows) { RunRows(part, x, rows); });
  });
}

template <typename Weight, typename X, typename Y>
void Run(const GatherGemv<Weight, X, Y>& work, const ParallelFor& parallel_for) {
  if (work.weight.k == 0) return static_cast<void>(std::fill_n(work.y, work.count * work.weight.n, Y{}));
  const auto& x = Prepare(Gemv<Weight, X, Y>{.weight = work.weight, .x = work.x}, parallel_for);
  // Whole tiles of all experts in one range, so that the threads' shares are even for any number of experts.
  constexpr int64_t grain = kRowGrain<Weight>;
  const int64_t units = (work.weight.n + grain - 1) / grain;
  parallel_for(work.count * units, [&](Range range) {
    for (int64_t unit = range.begin; unit < range.end;) {
      const int64_t expert = unit / units;
      const int64_t end = std::min(range.end, (expert + 1) * units);
      const Range rows{(unit - expert * units) * grain, std::min((end - expert * units) * grain, work.weight.n)};
      RunRows(
          Gemv<Weight, X, Y>{
              .weight = Expert(work.weight, work.experts[expert]), .x = work.x, .y = work.y + expert * work.weight.n},
          x, rows);
      unit = end;
    }
  });
}

#define ROOFBENCH_INSTANTIATE(Weight, X, Y)                         \
  template void RunRows(const Gemv<Weight, X, Y>&, Range);          \
  template void Run(const Gemv<Weight, X, Y>&, const ParallelFor&); \
  template void Run(const GatherGemv<Weight, X, Y>&, const ParallelFor&);

ROOFBENCH_INSTANTIATE(Fp32Weight, float, float)
ROOFBENCH_INSTANTIATE(Bf16Weight, Bf16, Bf16)
ROOFBENCH_INSTANTIATE(Bf16Weight, Bf16, float)
ROOFBENCH_INSTANTIATE(Int8Weight, Bf16, Bf16)
ROOFBENCH_INSTANTIATE(Int8Weight, Bf16, float)
ROOFBENCH_INSTANTIATE(Int4Weight, Bf16, Bf16)
ROOFBENCH_INSTANTIATE(Int4Weight, Bf16, float)
template void RunRows(const Gemv<Int8Weight, Bf16, float>&, const FixedPointVectors&, Range);
template void RunRows(const Gemv<Int4Weight, Bf16, float>&, const FixedPointVectors&, Range);

#undef ROOFBENCH_INSTANTIATE

}  // namespace roofbench::kernels
#endif
