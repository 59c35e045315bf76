#include "lib/kernels/softmax_avx512.h"

#include "lib/kernels/isa.h"

#if ROOFBENCH_X86

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include "lib/kernels/avx512_exp.h"
#include "lib/kernels/avx512_lines.h"

// Each row is read from memory once: its exponentials wait in fp32, in the cache, for their sum. The next row is
// fetched while they are computed, and its maximum is found while they are written.
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
  TARGET void AddPart(__m512i line, int64_t count) {
    largest_ = _mm512_mask_max_ps(largest_, Mask16(count), _mm512_castsi512_ps(line), largest_);
  }
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
  TARGET void AddPart(__m512i line, int64_t count) {
    signed_most_ = _mm512_mask_max_epi16(signed_most_, Mask32(count), signed_most_, line);
    unsigned_least_ = _mm512_mask_min_epu16(unsigned_least_, Mask32(count), unsigned_least_, line);
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

template <typename T>
TARGET float MaximumOf(const T* x, int64_t n) {
  Maximum<T> maximum;
  int64_t i = 0;
  for (; i + kPerLine<T> <= n; i += kPerLine<T>) maximum.Add(LoadLine(x + i));
  if (i < n) maximum.AddPart(LoadPart(x + i, n - i), n - i);
  return maximum.Get();
}

// Writes exp(x - maximum) to `exponentials` (whole lines) and returns their sum. Fetches `next` meanwhile.
template <typename T>
TARGET float Exponentials(const T* x, int64_t n, float maximum, float* exponentials, const T* next) {
  constexpr int64_t kVectors = static_cast<int64_t>(std::size(Floats<T>{}.v));
  const __m512 maxima = _mm512_set1_ps(maximum);
  __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  int64_t i = 0;
  for (; i + kPerLine<T> <= n; i += kPerLine<T>) {
    Prefetch(next + i);
    const Floats<T> floats = LoadFloats(x + i);
    for (int64_t v = 0; v < kVectors; ++v) {
      const __m512 e = Exp<T>(_mm512_sub_ps(floats.v[v], maxima));
      _mm512_storeu_ps(exponentials + i + v * 16, e);
      sums[v] = _mm512_add_ps(sums[v], e);
    }
  }
  if (i < n) {
    const Floats<T> floats = Unpack(x, LoadPart(x + i, n - i));
    for (int64_t v = 0; v < kVectors; ++v) {
      const int64_t lanes = std::clamp<int64_t>(n - i - v * 16, 0, 16);
      const auto mask = static_cast<__mmask16>((1U << lanes) - 1);
      const __m512 e = _mm512_maskz_mov_ps(mask, Exp<T>(_mm512_sub_ps(floats.v[v], maxima)));
      _mm512_storeu_ps(exponentials + i + v * 16, e);
      sums[v] = _mm512_add_ps(sums[v], e);
    }
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1]));
}

// y = exponentials · scale; returns the maximum of `next`.
template <bool kStream, typename T>
TARGET float Write(const float* exponentials, int64_t n, float scale, T* y, const T* next) {
  constexpr int64_t kVectors = static_cast<int64_t>(std::size(Floats<T>{}.v));
  const __m512 scales = _mm512_set1_ps(scale);
  Maximum<T> maximum;
  for (int64_t i = 0; i < n; i += kPerLine<T>) {
    Floats<T> floats;
    for (int64_t v = 0; v < kVectors; ++v) {
      floats.v[v] = _mm512_mul_ps(_mm512_loadu_ps(exponentials + i + v * 16), scales);
    }
    if (const int64_t count = n - i; count >= kPerLine<T>) {
      maximum.Add(LoadLine(next + i));
      StoreLine<kStream>(y + i, Pack(floats));
    } else {
      maximum.AddPart(LoadPart(next + i, count), count);
      StorePart(y + i, count, Pack(floats));
    }
  }
  return maximum.Get();
}

template <bool kStream, typename T>
TARGET void Rows(const Softmax<T>& work, Range range) {
  // One buffer a thread: its lines beyond the row's end are written, too.
  std::vector<float> exponentials(static_cast<std::size_t>(work.cols + kPerLine<T>));
  float maximum = MaximumOf(work.x + range.begin * work.x_stride, work.cols);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* x = work.x + row * work.x_stride;
    const T* next = row + 1 < range.end ? x + work.x_stride : x;
    const float sum = Exponentials(x, work.cols, maximum, exponentials.data(), next);
    maximum = Write<kStream>(exponentials.data(), work.cols, 1 / sum, work.y + row * work.y_stride, next);
  }
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
