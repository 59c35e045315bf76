#include "lib/kernels/softmax_avx512.h"

#include "lib/kernels/isa.h"

#if ROOFBENCH_X86

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include "lib/kernels/avx512_block.h"
#include "lib/kernels/avx512_exp.h"
#include "lib/kernels/avx512_lines.h"

// One loop works on three rows: it writes one, computes the exponentials of the next and finds the maximum of the one
// after. So memory is read and written all along, at the pace of the arithmetic. The exponentials wait for their sum in
// fp32, in the cache; those of the next row take the places of those that were just written.
#define TARGET ROOFBENCH_TARGET_AVX512_BF16

namespace roofbench::kernels::avx512 {
namespace {

// The largest element so far. NaNs need not be found here: their exponentials make the sum one.
template <typename T>
class Maximum;

template <>
class Maximum<float> {
 public:
  TARGET Maximum() : largest_(_mm512_set1_ps(-std::numeric_limits<float>::infinity())) {}
  TARGET void Add(__m512i line) { largest_ = _mm512_max_ps(_mm512_castsi512_ps(line), largest_); }
  TARGET float Get() const { return _mm512_reduce_max_ps(largest_); }

 private:
  __m512 largest_;
};

// The bits of non-negative bf16 numbers order them as int16, and those of negative ones order them backwards as uint16:
// two integer instructions look at 32 elements, which conversion to fp32 would take eight for.
template <>
class Maximum<Bf16> {
 public:
  TARGET Maximum() : signed_most_(_mm512_set1_epi16(INT16_MIN)), unsigned_least_(_mm512_set1_epi16(-1)) {}
  TARGET void Add(__m512i line) {
    signed_most_ = _mm512_max_epi16(signed_most_, line);
    unsigned_least_ = _mm512_min_epu16(unsigned_least_, line);
  }
  TARGET float Get() const {
    alignas(64) int16_t most[32];
    alignas(64) uint16_t least[32];
    _mm512_store_si512(most, signed_most_);
    _mm512_store_si512(least, unsigned_least_);
    const int16_t non_negative = *std::max_element(std::begin(most), std::end(most));
    if (non_negative >= 0) return ToFloat(Bf16{static_cast<uint16_t>(non_negative)});
    return ToFloat(Bf16{*std::min_element(std::begin(least), std::end(least))});
  }

 private:
  __m512i signed_most_;
  __m512i unsigned_least_;
};

// The end of a row, -infinity behind it: neither a maximum nor a part of the sum.
template <typename T>
struct Padded {
  Padded(const T* from, int64_t count) {
    if (count == 0) return;
    T fill;
    if constexpr (sizeof(T) == 2) {
      fill = ToBf16(-std::numeric_limits<float>::infinity());
    } else {
      fill = -std::numeric_limits<float>::infinity();
    }
    std::fill(std::copy_n(from, count, elements), elements + kPerBlock, fill);
  }
  alignas(kLineBytes) T elements[kPerBlock];
};

constexpr int64_t kFirstCacheBytes = int64_t{24} << 10;  // of 32 KiB

// What exponentials are taken of: distances from the row's maximum.
template <typename T>
struct Distance {
  explicit Distance(float from) : maximum(from) {
    // x · log2(e) - c in one rounding: c's own error is a factor of all elements. Not where c would be infinite.
    constexpr float kHuge = 1e38F;
    if (sizeof(T) == 2 && std::abs(from) < kHuge) {
      c = from * kLog2E;
      maximum = 0;
    }
  }
  float maximum;
  float c = 0;
};

// x = exp(x - maximum).
template <typename T>
TARGET inline void Exponentials(const Distance<T>& distance, Block& x) {
  if (sizeof(T) == 4 || distance.maximum != 0) {
    const __m512 maxima = _mm512_set1_ps(distance.maximum);
    ROOFBENCH_EACH x[v] = _mm512_sub_ps(x[v], maxima);
  }
  if constexpr (sizeof(T) == 2) {
    const __m512 c = _mm512_set1_ps(distance.c);
    ROOFBENCH_EACH x[v] = _mm512_fmsub_ps(x[v], _mm512_set1_ps(kLog2E), c);
    Exp2<T>(x);
  } else {
    Exp<T>(x);
  }
}

struct Stages {
  bool write = false;
  bool exponentials = false;
  bool maximum = false;
};

// A row on its way.
template <typename T>
struct Flow {
  float* exponentials;   // of the row to be written, then of the next
  float scale = 0;       // of the row to be written
  float maximum = 0;     // of the next row, then of the one after
  bool is_long = false;  // leaves no room in the first cache
};

// y = exponentials · scale; exponentials = exp(x - maximum), and their sum makes the scale; maximum = that of `next`.
template <bool kStream, Stages kDo, typename T>
TARGET void Pass(int64_t n, const T* x, const T* next, T* y, Flow<T>& flow) {
  const __m512 scale = _mm512_set1_ps(flow.scale);
  const __m512 one = _mm512_set1_ps(1);
  const Distance<T> distance(flow.maximum);
  Maximum<T> maximum;
  Block sums;
  ROOFBENCH_EACH sums[v] = _mm512_setzero_ps();
  for (int64_t i = 0; i < n; i += kPerBlock) {
    const int64_t count = n - i;
    const bool whole = count >= kPerBlock;
    float* const exponentials = flow.exponentials + i;
    Block written;
    if constexpr (kDo.write) ROOFBENCH_EACH written[v] = _mm512_mul_ps(_mm512_loadu_ps(exponentials + v * 16), scale);
    if constexpr (kDo.exponentials) {
      Block e;
      if (whole) {
        LoadBlock(x + i, e);
      } else {
        LoadBlock(Padded<T>(x + i, count).elements, e);
      }
      Exponentials<T>(distance, e);
      // The sum by multiplication: the units that add are the busier ones.
      ROOFBENCH_EACH sums[v] = _mm512_fmadd_ps(e[v], one, sums[v]);
      ROOFBENCH_EACH _mm512_storeu_ps(exponentials + v * 16, e[v]);
    }
    if constexpr (kDo.maximum) {
      PrefetchBlock(next + i, flow.is_long ? 8192 : 4096, flow.is_long);
      const Padded<T> padded(next + i, whole ? 0 : count);
      const T* const from = whole ? next + i : padded.elements;
#pragma GCC unroll 4
      for (int64_t at = 0; at < kPerBlock; at += kPerLine<T>) maximum.Add(LoadLine(from + at));
    }
    if constexpr (kDo.write) {
      if (whole) {
        StoreBlock<kStream>(y + i, written);
      } else {
        T last[kPerBlock];
        StoreBlock<false>(last, written);
        std::copy_n(last, count, y + i);
      }
    }
  }
  if constexpr (kDo.exponentials) {
    flow.scale =
        1 / _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
  }
  if constexpr (kDo.maximum) flow.maximum = maximum.Get();
}

template <bool kStream, typename T>
TARGET void Rows(const Softmax<T>& work, Range range) {
  const auto x = [&](int64_t row) { return work.x + row * work.x_stride; };
  const auto y = [&](int64_t row) { return work.y + row * work.y_stride; };
  // One buffer a thread, whole blocks.
  std::vector<float> exponentials(static_cast<std::size_t>(work.cols + kPerBlock));
  Flow<T> flow{.exponentials = exponentials.data(), .is_long = work.cols * 4 > kFirstCacheBytes};
  const int64_t n = work.cols;
  const int64_t last = range.end - 1;
  Pass<kStream, Stages{.maximum = true}>(n, x(range.begin), x(range.begin), y(range.begin), flow);
  int64_t row = range.begin;
  if (row == last) {
    Pass<kStream, Stages{.exponentials = true}>(n, x(row), x(row), y(row), flow);
  } else {
    Pass<kStream, Stages{.exponentials = true, .maximum = true}>(n, x(row), x(row + 1), y(row), flow);
  }
  for (; row + 1 < last; ++row) {
    Pass<kStream, Stages{true, true, true}>(n, x(row + 1), x(row + 2), y(row), flow);
  }
  if (row < last) Pass<kStream, Stages{.write = true, .exponentials = true}>(n, x(last), x(last), y(row), flow);
  Pass<kStream, Stages{.write = true}>(n, x(last), x(last), y(last), flow);
  if constexpr (kStream) _mm_sfence();
}

template <typename T>
void Dispatch(const Softmax<T>& work, Range range) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  if (StreamsRows(work.y, work.rows, work.cols * kBytes, work.y_stride * kBytes)) {
    Rows<true>(work, range);
  } else {
    Rows<false>(work, range);
  }
}

}  // namespace

void SoftmaxRows(const Softmax<float>& work, Range range) { Dispatch(work, range); }
void SoftmaxRows(const Softmax<Bf16>& work, Range range) { Dispatch(work, range); }

}  // namespace roofbench::kernels::avx512

#endif
