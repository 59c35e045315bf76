// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lib/kernels/operators/attention/decode_attention_variant.h"
#include "lib/kernels/operators/elementwise/activations.h"
#include "lib/kernels/simd/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/attention/decode_attention.cc"  // NOLINT(bugprone-suspicious-include)
#include "hwy/cache_control.h"
#include "lib/kernels/simd/highway_math.inc"

// Computes in fp32 over caches of every type; each element is converted to float as it is read.
HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
void Prepare(DecodeState<T>& state, int64_t g, const float* q, float scale) {
  for (int64_t i = 0; i < state.dim; ++i) state.queries[g][i] = q[i] * scale;
}

int64_t Place(int64_t column) { return column; }

// The scores of kKeys keys for one query head.
template <int64_t kKeys, typename T>
HWY_INLINE void ScoreKeys(DecodeState<T>& state, const KeyBlock<T>& block, int64_t g, int64_t first) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(FloatLanes());
  const float* const q = state.queries[g];
  const T* const keys = RowAt(block.keys, first, state.dim);
  FloatVec sums[kKeys];
  for (int64_t j = 0; j < kKeys; ++j) sums[j] = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= state.dim; i += lanes) {
    const FloatVec query = hn::LoadU(d, q + i);
    for (int64_t j = 0; j < kKeys; ++j) sums[j] = hn::MulAdd(query, LoadFloats(keys + j * state.dim + i), sums[j]);
  }
  if (i < state.dim) {
    const auto rest = static_cast<std::size_t>(state.dim - i);
    const FloatVec query = LoadSome(q + i, rest);
    for (int64_t j = 0; j < kKeys; ++j) {
      sums[j] = hn::MulAdd(query, LoadSome(keys + j * state.dim + i, rest), sums[j]);
    }
  }
  for (int64_t j = 0; j < kKeys; ++j) {
    const float scale = std::is_same_v<T, int8_t> ? block.key_scales[first + j] : 1.0F;
    state.scores[g][first + j] = SumOf(sums[j]) * scale;
  }
}

// Scores a few keys at a time, which stay in the L1, for one query head after the other.
template <typename T>
void ScoreBlock(DecodeState<T>& state, const KeyBlock<T>& block) {
  constexpr int64_t kKeys = 4;
  constexpr auto kPerLine = static_cast<int64_t>(64 / sizeof(T));
  for (int64_t first = 0; first < block.count; first += kKeys) {
    for (int64_t j = first; j < first + kKeys; ++j) {
      const T* const values = RowAt(block.values, j, state.dim);
      for (int64_t i = 0; i < state.dim; i += kPerLine) hwy::Prefetch(values + i);
    }
    for (int64_t g = 0; g < state.group; ++g) ScoreKeys<kKeys>(state, block, g, first);
  }
}

template <typename T>
void SoftenBlock(DecodeState<T>& state, int64_t g, const KeyBlock<T>& block) {
  const auto count = static_cast<std::size_t>(block.count);
  const float now = MaximumOf(state.scores[g], count);
  if (now > state.largest[g]) {
    const float shrink = std::exp(state.largest[g] - now);
    for (int64_t i = 0; i < state.dim; ++i) state.sums[g][i] *= shrink;
    state.weight_sums[g] *= shrink;
    state.largest[g] = now;
  }
  state.weight_sums[g] += SumExponentials<true>(state.scores[g], count, state.largest[g], state.weights[g]);
  if constexpr (std::is_same_v<T, int8_t>) {
    for (int64_t j = 0; j < block.count; ++j) state.weights[g][j] *= block.value_scales[j];
  }
}

// kVectors vectors of the sums of kGroup query heads.
template <int64_t kGroup, int64_t kVectors, typename T>
HWY_INLINE void WeighColumns(DecodeState<T>& state, const KeyBlock<T>& block, int64_t g, int64_t column) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(FloatLanes());
  FloatVec sums[kGroup][kVectors];
  for (int64_t member = 0; member < kGroup; ++member) {
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[member][v] = hn::LoadU(d, state.sums[g + member] + column + v * lanes);
    }
  }
  for (int64_t j = 0; j < block.count; ++j) {
    FloatVec values[kVectors];
    const T* const from = RowAt(block.values, j, state.dim) + column;
    for (int64_t v = 0; v < kVectors; ++v) values[v] = LoadFloats(from + v * lanes);
    for (int64_t member = 0; member < kGroup; ++member) {
      const FloatVec weight = hn::Set(d, state.weights[g + member][j]);
      for (int64_t v = 0; v < kVectors; ++v) sums[member][v] = hn::MulAdd(weight, values[v], sums[member][v]);
    }
  }
  for (int64_t member = 0; member < kGroup; ++member) {
    for (int64_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[member][v], d, state.sums[g + member] + column + v * lanes);
    }
  }
}

template <int64_t kGroup, typename T>
HWY_INLINE void WeighGroup(DecodeState<T>& state, const KeyBlock<T>& block, int64_t g) {
  constexpr int64_t kVectors = 2;
  const auto lanes = static_cast<int64_t>(FloatLanes());
  int64_t column = 0;
  for (; column + kVectors * lanes <= state.dim; column += kVectors * lanes) {
    WeighColumns<kGroup, kVectors>(state, block, g, column);
  }
  for (; column + lanes <= state.dim; column += lanes) WeighColumns<kGroup, 1>(state, block, g, column);
  for (; column < state.dim; ++column) {
    for (int64_t member = g; member < g + kGroup; ++member) {
      float& sum = state.sums[member][column];
      for (int64_t j = 0; j < block.count; ++j) {
        sum += state.weights[member][j] * ToFloat(RowAt(block.values, j, state.dim)[column]);
      }
    }
  }
}

template <typename T>
void WeighBlock(DecodeState<T>& state, const KeyBlock<T>& block) {
  constexpr auto kPerLine = static_cast<int64_t>(64 / sizeof(T));
  for (int64_t i = 0; i < kKeyLanes * state.dim; i += kPerLine) hwy::Prefetch(*block.next_keys + i);
  int64_t g = 0;
  for (; g + 4 <= state.group; g += 4) WeighGroup<4>(state, block, g);
  for (; g < state.group; ++g) WeighGroup<1>(state, block, g);
}

template <typename T>
constexpr DecodeVariant<T> kVariant = {
    .prepare = Prepare<T>, .score = ScoreBlock<T>, .soften = SoftenBlock<T>, .weigh = WeighBlock<T>, .place = Place};

const PortableVariants& Variants() {
  static constexpr PortableVariants kAll = {kVariant<float>, kVariant<Bf16>, kVariant<Fp16>, kVariant<int8_t>};
  return kAll;
}

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {
namespace {

HWY_EXPORT(Variants);

template <typename T>
const DecodeVariant<T>& PortableVariant() {
  return std::get<DecodeVariant<T>>(HWY_DYNAMIC_DISPATCH(Variants)());
}

// The results of a group's query heads over some of their keys; the weight of each part combines them.
struct AttendedPart {
  float* y;  // [group, head_dim]: softmax over these keys alone
  // [group]: the logarithm of the sum of exp(score); nullptr where no other part follows.
  float* weight;
};

// Elements of a row that a variant takes at once; the portable variant takes all other rows.
template <typename T>
constexpr int64_t kRowUnit = 1;
template <>
constexpr int64_t kRowUnit<float> = 16;
template <>
constexpr int64_t kRowUnit<Bf16> = 32;
template <>
constexpr int64_t kRowUnit<int8_t> = 64;

template <typename T>
using VariantFunction = const DecodeVariant<T>& (*)();
template <typename T>
constexpr IsaVariant<VariantFunction<T>> kVariants[] = {{0, PortableVariant<T>}};
#if ROOFBENCH_X86
template <>
constexpr IsaVariant<VariantFunction<float>> kVariants<float>[] = {{kAvx512Bf16, avx512::Fp32DecodeVariant},
                                                                   {0, PortableVariant<float>}};
template <>
constexpr IsaVariant<VariantFunction<Bf16>> kVariants<Bf16>[] = {{kAvx512Bf16, avx512::Bf16DecodeVariant},
                                                                 {0, PortableVariant<Bf16>}};
template <>
constexpr IsaVariant<VariantFunction<int8_t>> kVariants<int8_t>[] = {{kAvx512Vnni, avx512::Int8DecodeVariant},
                                                                     {0, PortableVariant<int8_t>}};
#endif

// Scores of the int8_t variants are in their own units until the softmax: a cap in between needs the portable variant.
template <typename T>
const DecodeVariant<T>& VariantOf(const DecodeAttention<T>& work) {
  if (std::is_same_v<T, int8_t> && work.cap > 0) return PortableVariant<T>();
  return work.head_dim % kRowUnit<T> == 0 ? BestVariant<kVariants<T>>()() : PortableVariant<T>();
}

// The location of one head's tokens.
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

  // The row of a token, and the number of contiguous tokens from there on.
  std::pair<int64_t, int64_t> At(int64_t token) const {
    if (blocks_ == nullptr) return {first_ + token, length_ - token};
    // 32-bit, since a 64-bit division takes about as long as the dot products of a key.
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

constexpr int64_t kMostTiles = kKeyBlock / kKeyLanes;  // of a block
constexpr int64_t kTilesAtOnce = 2 * kMostTiles;
constexpr int64_t kMostAhead = kMostTiles;
// "Soon" means a page ahead. The processor's own prefetchers do not expect this order of reads, which costs 5 to 15 %
// without this prefetch.
constexpr int64_t kBytesAhead = 4096;

// Half as many keys for short heads: in int8, blocks of 64 keys took 14 % less time than those of 128. In fp32 the
// opposite holds.
template <typename T>
constexpr int64_t TilesOfBlock(int64_t dim) {
  return dim < 128 && sizeof(T) < sizeof(float) ? kMostTiles / 2 : kMostTiles;
}

// The tiles of some keys of a head, in the order of the keys.
template <typename T>
struct FoundTiles {
  const T* keys[kTilesAtOnce + kMostAhead];  // and those of the next ones
  const T* values[kTilesAtOnce + kMostAhead];
  alignas(64) float key_scales[kTilesAtOnce * kKeyLanes];
  alignas(64) float value_scales[kTilesAtOnce * kKeyLanes];
  int64_t rows[kTilesAtOnce];  // of the first keys
  bool whole[kTilesAtOnce];    // kKeyLanes contiguous keys
  int64_t first;               // token
  int64_t tiles;
};

// Rows of a tile that is not contiguous, copied together.
template <typename T>
struct GatheredTile {
  alignas(64) T keys[kKeyLanes * kMostHeadDim];
  alignas(64) T values[kKeyLanes * kMostHeadDim];
};

template <typename T>
void FindTiles(const DecodeAttention<T>& work, const HeadRows<T>& rows, Range range, FoundTiles<T>& found) {
  found.first = range.begin;
  found.tiles = std::min(kTilesAtOnce, (range.size() + kKeyLanes - 1) / kKeyLanes);
  for (int64_t tile = 0; tile < found.tiles; ++tile) {
    const int64_t token = range.begin + tile * kKeyLanes;
    const auto [row, run] = rows.At(token);
    found.rows[tile] = row;
    found.whole[tile] = std::min(run, range.end - token) >= kKeyLanes;
    found.keys[tile] = work.keys + row * work.head_dim;
    found.values[tile] = work.values + row * work.head_dim;
    if (work.key_scales != nullptr) {
      __builtin_prefetch(work.key_scales + row);
      __builtin_prefetch(work.value_scales + row);
    }
  }
  std::fill_n(found.keys + found.tiles, kMostAhead, found.keys[found.tiles - 1]);
  std::fill_n(found.values + found.tiles, kMostAhead, found.values[found.tiles - 1]);
}

// `next` is read after `found`.
template <typename T>
void Follow(FoundTiles<T>& found, const FoundTiles<T>& next) {
  std::copy_n(next.keys, kMostAhead, found.keys + found.tiles);
  std::copy_n(next.values, kMostAhead, found.values + found.tiles);
}

// The factors of tiles that were looked up earlier: they have been fetched since.
template <typename T>
void TakeFactors(const DecodeAttention<T>& work, const HeadRows<T>& rows, int64_t end, FoundTiles<T>& found) {
  if (work.key_scales == nullptr) return;
  for (int64_t tile = 0; tile < found.tiles; ++tile) {
    float* const keys = found.key_scales + tile * kKeyLanes;
    float* const values = found.value_scales + tile * kKeyLanes;
    if (found.whole[tile]) {
      std::copy_n(work.key_scales + found.rows[tile], kKeyLanes, keys);
      std::copy_n(work.value_scales + found.rows[tile], kKeyLanes, values);
      continue;
    }
    for (int64_t i = 0; i < kKeyLanes; ++i) {
      const int64_t token = found.first + tile * kKeyLanes + i;
      const int64_t row = token < end ? rows.At(token).first : -1;
      keys[i] = row < 0 ? 0 : work.key_scales[row];
      values[i] = row < 0 ? 0 : work.value_scales[row];
    }
  }
}

// The tile of the keys from `token` on; past the end, the last one again.
template <typename T>
void Gather(const DecodeAttention<T>& work, const HeadRows<T>& rows, int64_t token, int64_t end, GatheredTile<T>& to) {
  for (int64_t i = 0; i < kKeyLanes; ++i) {
    const int64_t row = rows.At(std::min(token + i, end - 1)).first;
    std::copy_n(work.keys + row * work.head_dim, work.head_dim, to.keys + i * work.head_dim);
    std::copy_n(work.values + row * work.head_dim, work.head_dim, to.values + i * work.head_dim);
  }
}

// Computes `group` query heads of the group of `head`, from `member` on, against some keys.
template <typename T>
void AttendSome(const DecodeAttention<T>& work, int64_t head, Range range, int64_t member, int64_t group,
                AttendedPart to) {
  const DecodeVariant<T>& variant = VariantOf(work);
  const int64_t dim = work.head_dim;
  DecodeState<T> state;
  state.group = group;
  state.dim = dim;
  const float scale = work.scale > 0 ? work.scale : 1 / std::sqrt(static_cast<float>(dim));
  for (int64_t g = 0; g < group; ++g) {
    variant.prepare(state, g, work.q + (head * work.group + member + g) * dim, scale);
    std::fill_n(state.sums[g], kMostHeadDim, 0.0F);
    state.largest[g] = -std::numeric_limits<float>::infinity();
    state.weight_sums[g] = 0;
  }
  const HeadRows<T> rows(work, head);
  FoundTiles<T> found[2];
  GatheredTile<T> gathered;
  const int64_t tile_bytes = kKeyLanes * dim * static_cast<int64_t>(sizeof(T));
  const int64_t most = TilesOfBlock<T>(dim);
  const int64_t ahead = std::clamp(kBytesAhead / tile_bytes, int64_t{1}, kMostAhead);
  if (range.size() > 0) FindTiles(work, rows, range, found[0]);
  for (int64_t i = 0; range.size() > 0; i = 1 - i) {
    FoundTiles<T>& now = found[i];
    range.begin = std::min(range.end, range.begin + now.tiles * kKeyLanes);
    if (range.size() > 0) {
      FindTiles(work, rows, range, found[1 - i]);
      Follow(now, found[1 - i]);
    }
    TakeFactors(work, rows, range.end, now);
    for (int64_t tile = 0, tiles = 1; tile < now.tiles; tile += tiles) {
      const int64_t token = now.first + tile * kKeyLanes;
      tiles = 1;
      if (now.whole[tile]) {
        while (tiles < most && tile + tiles < now.tiles && now.whole[tile + tiles]) ++tiles;
      } else {
        Gather(work, rows, token, range.end, gathered);
        now.keys[tile] = gathered.keys;
        now.values[tile] = gathered.values;
      }
      const KeyBlock<T> block = {.keys = now.keys + tile,
                                 .values = now.values + tile,
                                 .keys_soon = now.keys + tile + ahead,
                                 .values_soon = now.values + tile + ahead,
                                 .next_keys = now.keys + tile + tiles,
                                 .key_scales = now.key_scales + tile * kKeyLanes,
                                 .value_scales = now.value_scales + tile * kKeyLanes,
                                 .count = std::min(tiles * kKeyLanes, range.end - token)};
      variant.score(state, block);
      for (int64_t g = 0; g < group; ++g) {
        if (work.cap > 0) {
          float* const scores = state.scores[g];
          Run(SoftCap{.x = scores, .y = scores, .n = block.count, .cap = work.cap}, SerialFor());
        }
        variant.soften(state, g, block);
      }
      variant.weigh(state, block);
    }
  }
  for (int64_t g = 0; g < group; ++g) {
    float* const y = to.y + (member + g) * dim;
    for (int64_t i = 0; i < dim; i += kColumnsTogether) {
      const float* const sums = state.sums[g] + variant.place(i);
      for (int64_t j = 0; j < std::min(kColumnsTogether, dim - i); ++j) y[i + j] = sums[j] / state.weight_sums[g];
    }
    if (to.weight != nullptr) to.weight[member + g] = state.largest[g] + std::log(state.weight_sums[g]);
  }
}

template <typename T>
void AttendKeys(const DecodeAttention<T>& work, int64_t head, Range keys, AttendedPart to) {
  for (int64_t done = 0; done < work.group; done += kMostGroup) {
    AttendSome(work, head, keys, done, std::min(kMostGroup, work.group - done), to);
  }
}

// The number of parts that the keys of every head are split into, so that the threads have about equal work.
template <typename T>
int64_t PartsOf(const DecodeAttention<T>& work, int threads) {
  constexpr int64_t kSharesPerThread = 4;
  constexpr int64_t kLeastKeys = 256;
  if (work.heads % threads == 0 || work.heads >= kSharesPerThread * threads) return 1;
  const int64_t wanted = (kSharesPerThread * threads + work.heads - 1) / work.heads;
  return std::clamp(work.length / kLeastKeys, int64_t{1}, wanted);
}

// Parts and their weights, one after the other, for each head.
template <typename T>
AttendedPart PartAt(const DecodeAttention<T>& work, int64_t index) {
  float* const y = work.scratch + index * work.group * (work.head_dim + 1);
  return {y, y + work.group * work.head_dim};
}

// Combines the softmax over parts of the keys into that over all keys.
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
#endif
