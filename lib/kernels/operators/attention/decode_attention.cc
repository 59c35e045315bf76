// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/kernels/operators/attention/decode_attention_avx512.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {
namespace {

// One key at a time, in the compiler's vectors.
template <typename T>
void AttendHead(const DecodeAttention<T>& work, int64_t head) {
  const int64_t dim = work.head_dim;
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  const T* const keys = work.keys + head * work.head_stride;
  const T* const values = work.values + head * work.head_stride;
  for (int64_t member = head * work.group; member < (head + 1) * work.group; ++member) {
    const float* const q = work.q + member * dim;
    float* const y = work.y + member * dim;
    float sum[kMostHeadDim] = {};
    float largest = -std::numeric_limits<float>::infinity();
    float weights = 0;
    for (int64_t t = 0; t < work.length; ++t) {
      float score = 0;
      for (int64_t i = 0; i < dim; ++i) score += q[i] * ToFloat(keys[t * dim + i]);
      score *= scale;
      if (score > largest) {
        const float shrink = std::exp(largest - score);
        for (int64_t i = 0; i < dim; ++i) sum[i] *= shrink;
        weights *= shrink;
        largest = score;
      }
      const float weight = std::exp(score - largest);
      weights += weight;
      for (int64_t i = 0; i < dim; ++i) sum[i] += weight * ToFloat(values[t * dim + i]);
    }
    for (int64_t i = 0; i < dim; ++i) y[i] = sum[i] / weights;
  }
}

// For heads of whole vectors.
using AttendFunction = void (*)(const DecodeAttention<Bf16>& work, int64_t head);
constexpr IsaRow<AttendFunction> kVectorWays[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, avx512::AttendHead},
#endif
    {0, AttendHead<Bf16>},
};

template <typename T>
void RunAll(const DecodeAttention<T>& work, const ParallelFor& parallel_for) {
  parallel_for(work.heads, 1, [&](Range range) { RunHeads(work, range); });
}

}  // namespace

void RunHeads(const DecodeAttention<float>& work, Range range) {
  for (int64_t head = range.begin; head < range.end; ++head) AttendHead(work, head);
}

void RunHeads(const DecodeAttention<Bf16>& work, Range range) {
  constexpr int64_t kElementsPerVector = 32;
  const AttendFunction attend = work.head_dim % kElementsPerVector == 0 ? BestWay<kVectorWays>() : AttendHead<Bf16>;
  for (int64_t head = range.begin; head < range.end; ++head) attend(work, head);
}

void Run(const DecodeAttention<float>& work, const ParallelFor& parallel_for) { RunAll(work, parallel_for); }
void Run(const DecodeAttention<Bf16>& work, const ParallelFor& parallel_for) { RunAll(work, parallel_for); }

}  // namespace roofbench::kernels
