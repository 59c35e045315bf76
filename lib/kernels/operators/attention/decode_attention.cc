// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/kernels/operators/attention/attended_part.h"
#include "lib/kernels/operators/attention/decode_attention_avx512.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {
namespace {

// One key at a time, in the compiler's vectors.
template <typename T>
void AttendKeys(const DecodeAttention<T>& work, int64_t head, Range range, AttendedPart to) {
  const int64_t dim = work.head_dim;
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  const T* const keys = work.keys + head * work.head_stride;
  const T* const values = work.values + head * work.head_stride;
  for (int64_t member = 0; member < work.group; ++member) {
    const float* const q = work.q + (head * work.group + member) * dim;
    float* const y = to.y + member * dim;
    float sum[kMostHeadDim] = {};
    float largest = -std::numeric_limits<float>::infinity();
    float weights = 0;
    for (int64_t t = range.begin; t < range.end; ++t) {
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
    if (to.weight != nullptr) to.weight[member] = largest + std::log(weights);
  }
}

template <typename T>
using AttendFunction = void (*)(const DecodeAttention<T>& work, int64_t head, Range keys, AttendedPart to);

// For heads of whole vectors.
constexpr IsaRow<AttendFunction<Bf16>> kVectorWays[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, avx512::AttendKeys},
#endif
    {0, AttendKeys<Bf16>},
};

AttendFunction<float> WayOf(const DecodeAttention<float>&) { return AttendKeys<float>; }
AttendFunction<Bf16> WayOf(const DecodeAttention<Bf16>& work) {
  constexpr int64_t kElementsPerVector = 32;
  return work.head_dim % kElementsPerVector == 0 ? BestWay<kVectorWays>() : AttendKeys<Bf16>;
}

template <typename T>
void RunSome(const DecodeAttention<T>& work, Range range) {
  const AttendFunction<T> attend = WayOf(work);
  for (int64_t head = range.begin; head < range.end; ++head) {
    attend(work, head, {0, work.length}, {work.y + head * work.group * work.head_dim, nullptr});
  }
}

// How many parts the keys of every head go in, so that the threads have about as much to do.
template <typename T>
int64_t PartsOf(const DecodeAttention<T>& work, int threads) {
  constexpr int64_t kSharesPerThread = 4;
  constexpr int64_t kLeastKeys = 256;
  if (work.heads % threads == 0 || work.heads >= kSharesPerThread * threads) return 1;
  const int64_t wanted = (kSharesPerThread * threads + work.heads - 1) / work.heads;
  return std::clamp(work.length / kLeastKeys, int64_t{1}, wanted);
}

// Parts and their weights, one behind the other, for each head.
template <typename T>
AttendedPart PartAt(const DecodeAttention<T>& work, int64_t index) {
  float* const y = work.scratch + index * work.group * (work.head_dim + 1);
  return {y, y + work.group * work.head_dim};
}

// softmax over all keys from those over parts of them.
template <typename T>
void Join(const DecodeAttention<T>& work, int64_t head, int64_t parts) {
  for (int64_t member = 0; member < work.group; ++member) {
    const auto weight_of = [&](int64_t part) { return PartAt(work, head * parts + part).weight[member]; };
    float largest = weight_of(0);
    for (int64_t part = 1; part < parts; ++part) largest = std::max(largest, weight_of(part));
    float sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += std::exp(weight_of(part) - largest);
    float* const y = work.y + (head * work.group + member) * work.head_dim;
    std::fill_n(y, work.head_dim, 0.0F);
    for (int64_t part = 0; part < parts; ++part) {
      const float share = std::exp(weight_of(part) - largest) / sum;
      const float* const from = PartAt(work, head * parts + part).y + member * work.head_dim;
      for (int64_t i = 0; i < work.head_dim; ++i) y[i] += share * from[i];
    }
  }
}

template <typename T>
void RunAll(const DecodeAttention<T>& work, const ParallelFor& parallel_for) {
  const int64_t parts = work.scratch == nullptr ? 1 : PartsOf(work, parallel_for.threads());
  if (parts == 1) return parallel_for(work.heads, 1, [&](Range range) { RunSome(work, range); });
  const AttendFunction<T> attend = WayOf(work);
  parallel_for(work.heads * parts, 1, [&](Range range) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      const Range keys = Share(work.length, 1, static_cast<int>(i % parts), static_cast<int>(parts));
      attend(work, i / parts, keys, PartAt(work, i));
    }
  });
  parallel_for(work.heads, 1, [&](Range range) {
    for (int64_t head = range.begin; head < range.end; ++head) Join(work, head, parts);
  });
}

}  // namespace

void RunHeads(const DecodeAttention<float>& work, Range range) { RunSome(work, range); }
void RunHeads(const DecodeAttention<Bf16>& work, Range range) { RunSome(work, range); }

template <typename T>
int64_t ScratchFloats(const DecodeAttention<T>& work, int threads) {
  return work.heads * PartsOf(work, threads) * work.group * (work.head_dim + 1);
}
template int64_t ScratchFloats(const DecodeAttention<float>& work, int threads);
template int64_t ScratchFloats(const DecodeAttention<Bf16>& work, int threads);

void Run(const DecodeAttention<float>& work, const ParallelFor& parallel_for) { RunAll(work, parallel_for); }
void Run(const DecodeAttention<Bf16>& work, const ParallelFor& parallel_for) { RunAll(work, parallel_for); }

}  // namespace roofbench::kernels
