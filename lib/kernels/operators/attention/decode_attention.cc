// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/kernels/operators/attention/decode_attention_way.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {
namespace {

// What the query heads of a group found among some of their keys; parts are put together by the weight of each.
struct AttendedPart {
  float* y;  // [group, head_dim]: softmax over these keys alone
  // [group]: the logarithm of the sum of exp(score); nullptr where no other part follows.
  float* weight;
};

// Elements of a row that a way takes at once; other rows go the portable way.
template <typename T>
constexpr int64_t kRowUnit = 1;
template <>
constexpr int64_t kRowUnit<Bf16> = 32;
template <>
constexpr int64_t kRowUnit<int8_t> = 64;

template <typename T>
constexpr IsaRow<DecodeWayFunction<T>> kWays[] = {{0, PortableDecodeWay<T>}};
#if ROOFBENCH_X86
template <>
constexpr IsaRow<DecodeWayFunction<Bf16>> kWays<Bf16>[] = {
    {kAvx512Bf16, avx512::Bf16DecodeWay},
    {0, PortableDecodeWay<Bf16>},
};
template <>
constexpr IsaRow<DecodeWayFunction<int8_t>> kWays<int8_t>[] = {
    {kAvx512Vnni, avx512::Int8DecodeWay},
    {0, PortableDecodeWay<int8_t>},
};
#endif

template <typename T>
const DecodeWay<T>& WayOf(const DecodeAttention<T>& work) {
  return work.head_dim % kRowUnit<T> == 0 ? BestWay<kWays<T>>()() : PortableDecodeWay<T>();
}

// Where the tokens of one head lie.
template <typename T>
class HeadRows {
 public:
  HeadRows(const DecodeAttention<T>& work, int64_t head) : length_(work.length), first_(head * work.capacity) {
    const Pages& pages = work.pages;
    if (pages.blocks == nullptr) return;
    blocks_ = pages.blocks + head / pages.heads * pages.per_sequence;
    tokens_ = static_cast<uint32_t>(pages.tokens);
    first_ = head % pages.heads * pages.tokens;
    rows_ = pages.heads * pages.tokens;
  }

  // The row of a token, and how many tokens from there on lie side by side.
  std::pair<int64_t, int64_t> At(int64_t token) const {
    if (blocks_ == nullptr) return {first_ + token, length_ - token};
    // Of 32 bits, since a division of 64 takes about as long as the dot products of a key.
    const uint32_t block = static_cast<uint32_t>(token) / tokens_;
    const int64_t in_block = token - int64_t{block} * tokens_;
    return {blocks_[block] * rows_ + first_ + in_block, tokens_ - in_block};
  }

 private:
  int64_t length_;
  int64_t first_;
  const int32_t* blocks_ = nullptr;  // of the sequence
  uint32_t tokens_ = 0;              // of a block
  int64_t rows_ = 0;                 // of a block
};

// A block, and the runs of tokens side by side in it.
template <typename T>
struct FoundBlock {
  struct Run {
    int64_t row;
    int64_t end;  // in the block
  };
  KeyBlock<T> block;
  Run runs[kKeyBlock];
  int64_t run_count;
};

template <typename T>
void FindKeys(const DecodeAttention<T>& work, const HeadRows<T>& rows, Range range, FoundBlock<T>& found) {
  constexpr int64_t kFactorsPerLine = 16;
  KeyBlock<T>& block = found.block;
  block.count = std::min(kKeyBlock, range.size());
  found.run_count = 0;
  for (int64_t i = 0; i < block.count;) {
    const auto [row, run] = rows.At(range.begin + i);
    const int64_t until = std::min(block.count, i + run);
    found.runs[found.run_count++] = {row, until};
    if (work.key_scales != nullptr) {
      for (int64_t j = 0; j < until - i; j += kFactorsPerLine) {
        __builtin_prefetch(work.key_scales + row + j);
        __builtin_prefetch(work.value_scales + row + j);
      }
    }
    const T* key = work.keys + row * work.head_dim;
    const T* value = work.values + row * work.head_dim;
    for (; i < until; ++i, key += work.head_dim, value += work.head_dim) {
      block.keys[i] = key;
      block.values[i] = value;
    }
  }
  const int64_t lanes = (block.count + kKeyLanes - 1) / kKeyLanes * kKeyLanes;
  std::fill(block.keys + block.count, block.keys + lanes + kRowsAhead, block.keys[block.count - 1]);
  std::fill(block.values + block.count, block.values + lanes + kRowsAhead, block.values[block.count - 1]);
}

// The factors of a block that was found a block ago: they have been fetched since.
template <typename T>
void TakeFactors(const DecodeAttention<T>& work, FoundBlock<T>& found) {
  if (work.key_scales == nullptr) return;
  KeyBlock<T>& block = found.block;
  int64_t i = 0;
  for (int64_t run = 0; run < found.run_count; ++run) {
    const int64_t offset = found.runs[run].row - i;
    for (; i < found.runs[run].end; ++i) {
      block.key_scales[i] = work.key_scales[offset + i];
      block.value_scales[i] = work.value_scales[offset + i];
    }
  }
  for (; i % kKeyLanes != 0; ++i) block.key_scales[i] = block.value_scales[i] = 0;
}

// `group` query heads of the group of `head`, from `member` on, against some keys.
template <typename T>
void AttendSome(const DecodeAttention<T>& work, int64_t head, Range range, int64_t member, int64_t group,
                AttendedPart to) {
  const DecodeWay<T>& way = WayOf(work);
  const int64_t dim = work.head_dim;
  DecodeState<T> state;
  state.group = group;
  state.dim = dim;
  for (int64_t g = 0; g < group; ++g) {
    way.prepare(state, g, work.q + (head * work.group + member + g) * dim, 1 / std::sqrt(static_cast<float>(dim)));
    std::fill_n(state.sums[g], kMostHeadDim, 0.0F);
    state.largest[g] = -std::numeric_limits<float>::infinity();
    state.weight_sums[g] = 0;
  }
  const HeadRows<T> rows(work, head);
  FoundBlock<T> blocks[2];
  FindKeys(work, rows, range, blocks[0]);
  for (int64_t i = 0; range.size() > 0; i = 1 - i) {
    const KeyBlock<T>& block = blocks[i].block;
    range.begin += block.count;
    const bool more = range.size() > 0;
    if (more) FindKeys(work, rows, range, blocks[1 - i]);
    TakeFactors(work, blocks[i]);
    way.score(state, block);
    for (int64_t g = 0; g < group; ++g) way.soften(state, g, block);
    way.weigh(state, block, more ? &blocks[1 - i].block : nullptr);
  }
  for (int64_t g = 0; g < group; ++g) {
    float* const y = to.y + (member + g) * dim;
    for (int64_t i = 0; i < dim; ++i) y[i] = state.sums[g][way.place(i)] / state.weight_sums[g];
    if (to.weight != nullptr) to.weight[member + g] = state.largest[g] + std::log(state.weight_sums[g]);
  }
}

template <typename T>
void AttendKeys(const DecodeAttention<T>& work, int64_t head, Range keys, AttendedPart to) {
  for (int64_t done = 0; done < work.group; done += kMostGroup) {
    AttendSome(work, head, keys, done, std::min(kMostGroup, work.group - done), to);
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

}  // namespace

template <typename T>
void RunHeads(const DecodeAttention<T>& work, Range range) {
  for (int64_t head = range.begin; head < range.end; ++head) {
    AttendKeys(work, head, {0, work.length}, {work.y + head * work.group * work.head_dim, nullptr});
  }
}

template <typename T>
int64_t ScratchFloats(const DecodeAttention<T>& work, int threads) {
  return work.heads * PartsOf(work, threads) * work.group * (work.head_dim + 1);
}

template <typename T>
void Run(const DecodeAttention<T>& work, const ParallelFor& parallel_for) {
  const int64_t parts = work.scratch == nullptr ? 1 : PartsOf(work, parallel_for.threads());
  if (parts == 1) return parallel_for(work.heads, 1, [&](Range range) { RunHeads(work, range); });
  parallel_for(work.heads * parts, 1, [&](Range range) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      const Range keys = Share(work.length, 1, static_cast<int>(i % parts), static_cast<int>(parts));
      AttendKeys(work, i / parts, keys, PartAt(work, i));
    }
  });
  parallel_for(work.heads, 1, [&](Range range) {
    for (int64_t head = range.begin; head < range.end; ++head) Join(work, head, parts);
  });
}

#define ROOFBENCH_DECODE_ATTENTION(T)                             \
  template void RunHeads(const DecodeAttention<T>&, Range);       \
  template int64_t ScratchFloats(const DecodeAttention<T>&, int); \
  template void Run(const DecodeAttention<T>&, const ParallelFor&);

ROOFBENCH_DECODE_ATTENTION(float)
ROOFBENCH_DECODE_ATTENTION(Bf16)
ROOFBENCH_DECODE_ATTENTION(Fp16)
ROOFBENCH_DECODE_ATTENTION(int8_t)

}  // namespace roofbench::kernels
