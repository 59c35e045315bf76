// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/data_movement.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "lib/kernels/simd/streaming.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/data_movement.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Stores bypass the caches; `to` begins a cache line, and `bytes` are whole lines.
void StreamRow(const std::byte* from, std::byte* to, std::size_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto* source = reinterpret_cast<const uint8_t*>(from);
  auto* target = reinterpret_cast<uint8_t*>(to);
  for (std::size_t i = 0; i < bytes; i += lanes) hn::Stream(hn::LoadU(d, source + i), d, target + i);
}

constexpr int64_t kLine = 16;  // of y: this many rows of x

#if HWY_TARGET == HWY_SCALAR
constexpr int64_t kTile = 1;
HWY_INLINE void Tile(const float* x, int64_t /*x_stride*/, float* y, int64_t /*y_stride*/) { *y = *x; }
#else
constexpr int64_t kTile = 4;

HWY_INLINE void Tile(const float* x, int64_t x_stride, float* y, int64_t y_stride) {
  const hn::FixedTag<float, kTile> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto a = hn::LoadU(d, x);
  const auto b = hn::LoadU(d, x + x_stride);
  const auto c = hn::LoadU(d, x + 2 * x_stride);
  const auto e = hn::LoadU(d, x + 3 * x_stride);
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), d, y);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), d, y + y_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), d, y + 2 * y_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), d, y + 3 * y_stride);
}
#endif

void Columns(const Transpose& work, Range range) {
  const int64_t whole_rows = work.rows / kTile * kTile;
  const int64_t whole_end = range.begin + range.size() / kTile * kTile;
  for (int64_t line = 0; line < whole_rows; line += kLine) {
    const int64_t line_end = std::min(line + kLine, whole_rows);
    for (int64_t col = range.begin; col < whole_end; col += kTile) {
      for (int64_t row = line; row < line_end; row += kTile) {
        Tile(work.x + row * work.cols + col, work.cols, work.y + col * work.rows + row, work.rows);
      }
    }
  }
  for (int64_t col = range.begin; col < range.end; ++col) {
    for (int64_t row = col < whole_end ? whole_rows : 0; row < work.rows; ++row) {
      work.y[col * work.rows + row] = work.x[row * work.cols + col];
    }
  }
}

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

HWY_EXPORT(StreamRow);
HWY_EXPORT(Columns);

namespace {

template <typename T>
void Rows(const Embedding<T>& work, const ParallelFor& parallel_for) {
  const auto row_bytes = static_cast<std::size_t>(work.cols) * sizeof(T);
  const bool streams = StreamsRows(work.y, work.rows, work.cols);
  parallel_for(work.rows, [&](Range range) {
    for (int64_t row = range.begin; row < range.end; ++row) {
      const auto* from = reinterpret_cast<const std::byte*>(work.table + work.index[row] * work.cols);
      auto* to = reinterpret_cast<std::byte*>(work.y + row * work.cols);
      if (streams) {
        HWY_DYNAMIC_DISPATCH(StreamRow)(from, to, row_bytes);
      } else if (row_bytes > 0) {
        std::memcpy(to, from, row_bytes);
      }
    }
    if (streams) hwy::FlushStream();
  });
}

}  // namespace

void Run(const Embedding<float>& work, const ParallelFor& parallel_for) { Rows(work, parallel_for); }
void Run(const Embedding<Bf16>& work, const ParallelFor& parallel_for) { Rows(work, parallel_for); }

void Run(const Transpose& work, const ParallelFor& parallel_for) {
  constexpr int64_t kGrain = 16;  // columns of x: rows of y
  parallel_for(work.cols, kGrain, [&](Range range) { HWY_DYNAMIC_DISPATCH(Columns)(work, range); });
}

}  // namespace roofbench::kernels
#endif
