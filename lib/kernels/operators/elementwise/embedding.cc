// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/embedding.h"

#include <cstddef>
#include <cstring>

#include "lib/kernels/simd/streaming.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/embedding.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Past the caches; `to` begins a cache line, and `bytes` are whole lines.
void StreamRow(const std::byte* from, std::byte* to, std::size_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto* source = reinterpret_cast<const uint8_t*>(from);
  auto* target = reinterpret_cast<uint8_t*>(to);
  for (std::size_t i = 0; i < bytes; i += lanes) hn::Stream(hn::LoadU(d, source + i), d, target + i);
}

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

HWY_EXPORT(StreamRow);

namespace {

template <typename T>
void Rows(const Embedding<T>& work, const ParallelFor& parallel_for) {
  const auto row_bytes = static_cast<std::size_t>(work.cols) * sizeof(T);
  const bool streams = StreamsRows(work) && row_bytes % kLineBytes == 0;
  parallel_for(work.rows, [&](Range range) {
    for (int64_t row = range.begin; row < range.end; ++row) {
      const auto* from = reinterpret_cast<const std::byte*>(work.table + work.index[row] * work.table_stride);
      auto* to = reinterpret_cast<std::byte*>(work.y + row * work.y_stride);
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

}  // namespace roofbench::kernels
#endif
