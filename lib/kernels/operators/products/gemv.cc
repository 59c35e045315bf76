// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/gemv.h"

#include <algorithm>
#include <deque>
#include <type_traits>
#include <vector>

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

// At most: int4 weights have half as many.
template <typename Weight>
int64_t RowBytes(const Weight& weight) {
  return weight.k * static_cast<int64_t>(sizeof(*weight.data));
}

template <typename Weight>
int64_t ChunkRows(const Weight& weight) {
  const int64_t rows = kChunkBytes / std::max<int64_t>(1, RowBytes(weight)) / kInt4TileRows * kInt4TileRows;
  return std::clamp(rows, kInt4TileRows, kMostChunkRows);
}

int64_t GroupOf(const Int8Weight&) { return 0; }
int64_t GroupOf(const Int4Weight& weight) { return weight.group; }

// A vector in the form that this processor's row loops take. Its memory stays with the thread, so that a loop of
// products does not allocate.
struct Scratch {
  FixedPoint fixed;
  std::vector<float> floats;
  bool is_fixed = false;
};

Scratch& ScratchOf(int64_t vector) {
  thread_local std::deque<Scratch> all;  // a deque: references survive
  while (static_cast<int64_t>(all.size()) <= vector) all.emplace_back();
  return all[static_cast<std::size_t>(vector)];
}

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

// The conversion of a vector to fixed point, and its product with rows; null pointers where the processor multiplies in
// fp32. `vectors` takes several at once; null where one after the other is faster (int4: its tiles, unpacked once for
// two to four vectors, took 1.1 to 1.6 times as long; two-core EPYC, 2026-11-23).
template <typename Weight>
struct FixedPointProduct {
  bool (*convert)(const Bf16* x, int64_t k, int64_t group, FixedPoint& to) = nullptr;
  void (*rows)(const Weight& weight, const FixedPoint& x, float* y, Range rows) = nullptr;
  void (*vectors)(const Weight& weight, const FixedPoint* const* x, int64_t vectors, float* y, int64_t y_stride,
                  Range rows, const FetchPlan& fetch) = nullptr;
};
template <typename Weight>
constexpr IsaVariant<FixedPointProduct<Weight>> kFixedPointVariants[] = {{0, {}}};
#if ROOFBENCH_X86
template <>
constexpr IsaVariant<FixedPointProduct<Int8Weight>> kFixedPointVariants<Int8Weight>[] = {
    {kAvx512Vnni | kFewStreams, {Avx512Convert, Avx512FewStreams, Avx512Vectors}},
    {kAvx512Vnni, {Avx512Convert, Avx512Rows, Avx512Vectors}},
    {0, {}}};
template <>
constexpr IsaVariant<FixedPointProduct<Int4Weight>> kFixedPointVariants<Int4Weight>[] = {
    {kAvx512Vnni | kFewStreams, {Avx512Convert, Avx512FewStreams}},
    {kAvx512Vnni, {Avx512Convert, Avx512Rows}},
    {0, {}}};
#endif

template <typename Weight>
concept Quantized = std::is_same_v<Weight, Int8Weight> || std::is_same_v<Weight, Int4Weight>;

// One vector against rows of a weight.
template <typename Weight, typename X>
class Product {
 public:
  Product(const Weight& weight, const X* x, int64_t /*vector*/) : weight_(weight), x_(x) {}
  void Rows(float* y, Range rows) const { BestVariant<kPlainVariants<Weight, X>>().rows(weight_, x_, y, rows); }

 private:
  const Weight& weight_;
  const X* x_;
};

template <Quantized Weight, typename X>
class Product<Weight, X> {
 public:
  Product(const Weight& weight, const X* x, int64_t vector) : weight_(weight), scratch_(ScratchOf(vector)) {
    const auto convert = BestVariant<kFixedPointVariants<Weight>>().convert;
    scratch_.is_fixed = convert != nullptr && convert(x, weight.k, GroupOf(weight), scratch_.fixed);
    if (scratch_.is_fixed) return;
    scratch_.floats.resize(static_cast<std::size_t>(weight.k));
    std::transform(x, x + weight.k, scratch_.floats.begin(), [](X value) { return ToFloat(value); });
  }
  void Rows(float* y, Range rows) const {
    if (scratch_.is_fixed) return BestVariant<kFixedPointVariants<Weight>>().rows(weight_, scratch_.fixed, y, rows);
    PortableRows(weight_, scratch_.floats.data(), y, rows);
  }
  // Null where the vector is not in fixed point.
  const FixedPoint* fixed() const { return scratch_.is_fixed ? &scratch_.fixed : nullptr; }

 private:
  const Weight& weight_;
  Scratch& scratch_;
};

void Store(const float* from, int64_t count, float* to) { std::copy_n(from, count, to); }
void Store(const float* from, int64_t count, Bf16* to) { std::transform(from, from + count, to, ToBf16); }

// Calls multiply(first, vectors, y, rows, fetch), y [vectors, kMostChunkRows], with as many vectors at a time as it
// takes, in even shares. Memory stays busy: where there are several shares, those of a chunk fetch the next one.
template <typename Weight, typename X, typename Y, typename Multiply>
void RunVectors(const Gemv<Weight, X, Y>& work, Range rows, Multiply multiply) {
  const Weight& weight = work.weight;
  const int64_t shares = (work.m + kMostVectors - 1) / kMostVectors;
  const int64_t step = ChunkRows(weight);
  for (int64_t row = rows.begin; row < rows.end; row += step) {
    const Range chunk{row, std::min(row + step, rows.end)};
    const bool is_followed = row + 2 * step <= rows.end;
    for (int64_t share = 0; share < shares; ++share) {
      const int64_t first = share * work.m / shares;
      const int64_t vectors = (share + 1) * work.m / shares - first;
      const FetchPlan fetch = {.ahead = shares == 1 ? kRowAhead : step * RowBytes(weight),
                               .share = shares == 1 || is_followed ? share : shares,
                               .shares = shares};
      float results[kMostVectors * kMostChunkRows];
      multiply(first, vectors, results, chunk, fetch);
      for (int64_t v = 0; v < vectors; ++v) {
        Store(results + v * kMostChunkRows, chunk.size(), work.y + (first + v) * weight.n + row);
      }
    }
  }
}

// Multiplies the rows with several vectors at a time. Returns false, without doing so, if no variant does that.
template <typename Weight, typename X, typename Y>
bool RunTogether(const Gemv<Weight, X, Y>& work, const std::vector<Product<Weight, X>>& /*products*/, Range rows) {
  if constexpr (std::is_same_v<Weight, Bf16Weight>) {
    const TileLinearKernels* const tiles = BestVariant<kPlainVariants<Weight, X>>().vectors;
    if (tiles == nullptr) return false;
    const auto [data, n, k] = work.weight;
    thread_local std::vector<Line<std::byte>> packed;
    packed.resize(static_cast<std::size_t>(PanelBytes(work.m, TileSteps(k * int64_t{sizeof(X)})) / kLineBytes));
    tiles->pack(work.x, work.m, k, packed.data()->values, SerialFor());
    const TileLinear<Y> linear = {.x = packed.data()->values, .w = data, .y = work.y, .m = work.m, .n = n, .k = k};
    if constexpr (std::is_same_v<Y, float>) {
      tiles->run_columns_to_floats(linear, rows);
    } else {
      tiles->run_columns(linear, rows);
    }
    return true;
  }
  return false;
}

template <Quantized Weight, typename X, typename Y>
bool RunTogether(const Gemv<Weight, X, Y>& work, const std::vector<Product<Weight, X>>& products, Range rows) {
  const auto variant = BestVariant<kFixedPointVariants<Weight>>().vectors;
  const auto is_fixed = [](const Product<Weight, X>& product) { return product.fixed() != nullptr; };
  if (variant == nullptr || !std::ranges::all_of(products, is_fixed)) return false;
  RunVectors(work, rows, [&](int64_t first, int64_t vectors, float* y, Range chunk, const FetchPlan& fetch) {
    const FixedPoint* x[kMostVectors];
    for (int64_t v = 0; v < vectors; ++v) x[v] = products[static_cast<std::size_t>(first + v)].fixed();
    variant(work.weight, x, vectors, y, kMostChunkRows, chunk, fetch);
  });
  return true;
}

}  // namespace

template <typename Weight, typename X, typename Y>
void RunRows(const Gemv<Weight, X, Y>& work, Range rows) {
  const Weight& weight = work.weight;
  if (weight.k == 0) {
    // Empty sums (k = 0): the fixed-point vectors then have no memory for the kernels to point into.
    for (int64_t i = 0; i < work.m; ++i) std::fill_n(work.y + i * weight.n + rows.begin, rows.size(), Y{});
    return;
  }
  std::vector<Product<Weight, X>> products;  // hold only a few pointers each
  products.reserve(static_cast<std::size_t>(work.m));
  for (int64_t i = 0; i < work.m; ++i) products.emplace_back(weight, work.x + i * weight.k, i);
  if (work.m > 1 && RunTogether(work, products, rows)) return;
  const int64_t step = work.m == 1 ? kLongChunkRows : ChunkRows(weight);
  for (int64_t row = rows.begin; row < rows.end; row += step) {
    const Range chunk{row, std::min(row + step, rows.end)};
    for (int64_t i = 0; i < work.m; ++i) {
      float results[kLongChunkRows];
      products[static_cast<std::size_t>(i)].Rows(results, chunk);
      Store(results, chunk.size(), work.y + i * weight.n + row);
    }
  }
}

template <typename Weight, typename X, typename Y>
void Run(const Gemv<Weight, X, Y>& work, const ParallelFor& parallel_for) {
  parallel_for(work.weight.n, kRowGrain<Weight>, [&](Range rows) { RunRows(work, rows); });
}

template <typename Weight, typename X, typename Y>
void Run(const GatherGemv<Weight, X, Y>& work, const ParallelFor& parallel_for) {
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
          rows);
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

#undef ROOFBENCH_INSTANTIATE

}  // namespace roofbench::kernels
#endif
