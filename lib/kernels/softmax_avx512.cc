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
    std::fill(std::copy_n(from, count, elements), elements + kPerBlock,
              Rounded<T>(-std::numeric_limits<float>::infinity()));
  }
  alignas(kLineBytes) T elements[kPerBlock];
};

// What exponentials are taken of: distances from the row's maximum.
template <typename T>
struct Distance {
  explicit Distance(float from) : maximum(from) {
    // x · log2(e) - c in one rounding: c's own error is a factor of all elements, here next to 1. Beyond, it would
    // become zero or infinite.
    constexpr float kLarge = 1 << 20;
    if (sizeof(T) == 2 && std::abs(from) < kLarge) {
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

// A cache line: vectors that lie across two take twice the time.
struct alignas(kLineBytes) FloatLine {
  float elements[kPerLine<float>];
};

struct Stages {
  bool write = false;
  bool exponentials = false;
  bool maximum = false;
};

// A row on its way.
struct Flow {
  float* exponentials;  // of the row to be written, then of the next
  float scale = 0;      // of the row to be written
  float maximum = 0;    // of the next row, then of the one after
};

// Where a pass is: the row to be written, the next one, and the one after.
template <typename T>
struct Places {
  T* y;
  const T* x;
  const T* next;
};

template <typename T>
struct Sums {
  TARGET void AddToMaximum(const T* block) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kPerBlock; i += kPerLine<T>) maximum.Add(LoadLine(block + i));
  }
  Block exponentials;
  Maximum<T> maximum;
};

// One block: y = exponentials · scale; exponentials = exp(x - maximum), added to their sum; the maximum of `next`.
template <bool kStream, Stages kDo, bool kWhole, typename T>
TARGET inline void Step(const Places<T>& at, int64_t count, float* exponentials, __m512 scale,
                        const Distance<T>& distance, Sums<T>& sums) {
  Block e;
  Block written;
  // Every load goes before the first store: rows lie a multiple of 4 KiB apart as a rule, and a load whose low address
  // bits are those of a store in flight waits for it.
  if constexpr (kDo.exponentials) LoadBlock(kWhole ? at.x : Padded<T>(at.x, count).elements, e);
  if constexpr (kDo.write) ROOFBENCH_EACH written[v] = _mm512_mul_ps(_mm512_load_ps(exponentials + v * 16), scale);
  if constexpr (kDo.maximum) sums.AddToMaximum(kWhole ? at.next : Padded<T>(at.next, count).elements);
  if constexpr (kDo.exponentials) {
    Exponentials<T>(distance, e);
    ROOFBENCH_EACH sums.exponentials[v] = _mm512_add_ps(sums.exponentials[v], e[v]);
    ROOFBENCH_EACH _mm512_store_ps(exponentials + v * 16, e[v]);
  }
  if constexpr (kDo.write && kWhole) {
    StoreBlock<kStream>(at.y, written);
  } else if constexpr (kDo.write) {
    T last[kPerBlock];
    StoreBlock<false>(last, written);
    std::copy_n(last, count, at.y);
  }
}

// What a block further on needs, from the second cache into the first.
template <Stages kDo, typename T>
TARGET inline void FetchNear(const T* next, const float* exponentials) {
  constexpr int64_t kNear = 4;  // blocks
  if constexpr (kDo.maximum) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kPerBlock; i += kPerLine<T>) Prefetch(next + kNear * kPerBlock + i);
  }
  if constexpr (kDo.write) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kPerBlock; i += kPerLine<float>) Prefetch(exponentials + kNear * kPerBlock + i);
  }
}

template <bool kStream, Stages kDo, typename T>
TARGET void Pass(int64_t n, const Places<T>& at, Flow& flow) {
  constexpr int64_t kAheadBytes = 8192;
  const __m512 scale = _mm512_set1_ps(flow.scale);
  const Distance<T> distance(flow.maximum);
  Sums<T> sums;
  ROOFBENCH_EACH sums.exponentials[v] = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + kPerBlock <= n; i += kPerBlock) {
    if constexpr (kDo.maximum) PrefetchBlock(at.next + i, kAheadBytes);
    FetchNear<kDo>(at.next + i, flow.exponentials + i);
    Step<kStream, kDo, true, T>({at.y + i, at.x + i, at.next + i}, kPerBlock, flow.exponentials + i, scale, distance,
                                sums);
  }
  if (i < n) {
    Step<kStream, kDo, false, T>({at.y + i, at.x + i, at.next + i}, n - i, flow.exponentials + i, scale, distance,
                                 sums);
  }
  if constexpr (kDo.exponentials) {
    const Block& e = sums.exponentials;
    flow.scale = 1 / _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(e[0], e[1]), _mm512_add_ps(e[2], e[3])));
  }
  if constexpr (kDo.maximum) flow.maximum = sums.maximum.Get();
}

template <bool kStream, typename T>
TARGET void Rows(const Softmax<T>& work, Range range) {
  // One buffer a thread, whole blocks.
  std::vector<FloatLine> exponentials(static_cast<std::size_t>((work.cols + kPerBlock) / kPerLine<float>));
  Flow flow{.exponentials = exponentials.data()->elements};
  const int64_t n = work.cols;
  const int64_t last = range.end - 1;
  // The places when `row` is to be written. Beyond the last row no stage looks at them.
  const auto at = [&](int64_t row) {
    const auto x = [&](int64_t of) { return work.x + std::min(of, last) * work.x_stride; };
    return Places<T>{work.y + std::max(row, range.begin) * work.y_stride, x(row + 1), x(row + 2)};
  };
  int64_t row = range.begin - 2;
  Pass<kStream, Stages{.maximum = true}>(n, at(row++), flow);
  if (row + 1 < last) {
    Pass<kStream, Stages{.exponentials = true, .maximum = true}>(n, at(row++), flow);
  } else {
    Pass<kStream, Stages{.exponentials = true}>(n, at(row++), flow);
  }
  for (; row + 1 < last; ++row) Pass<kStream, Stages{true, true, true}>(n, at(row), flow);
  if (row < last) Pass<kStream, Stages{.write = true, .exponentials = true}>(n, at(row++), flow);
  Pass<kStream, Stages{.write = true}>(n, at(row), flow);
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
}  // namespace roofbench::kernels::avx512

namespace roofbench::kernels {

void Avx512Part(const Softmax<float>& work, Range range) { avx512::Dispatch(work, range); }
void Avx512Part(const Softmax<Bf16>& work, Range range) { avx512::Dispatch(work, range); }

}  // namespace roofbench::kernels

#endif
