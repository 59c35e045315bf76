// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "lib/kernels/operators/attention/decode_attention_variant.h"
#include "lib/kernels/operators/elementwise/soft_cap.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {
namespace {

// What the query heads of a group found among some of their keys; parts are put together by the weight of each.
struct AttendedPart {
  float* y;  // [group, head_dim]: softmax over these keys alone
  // [group]: the logarithm of the sum of exp(score); nullptr where no other part follows.
  float* weight;
};

// Elements of a row that a variant takes at once; other rows go to the portable one.
template <typename T>
constexpr int64_t kRowUnit = 1;
template <>
constexpr int64_t kRowUnit<Bf16> = 32;
template <>
constexpr int64_t kRowUnit<int8_t> = 64;

template <typename T>
constexpr IsaVariant<DecodeVariantFunction<T>> kVariants[] = {{0, PortableDecodeVariant<T>}};
#if ROOFBENCH_X86
template <>
constexpr IsaVariant<DecodeVariantFunction<Bf16>> kVariants<Bf16>[] = {
    {kAvx512Bf16, avx512::Bf16DecodeVariant},
    {0, PortableDecodeVariant<Bf16>},
};
template <>
constexpr IsaVariant<DecodeVariantFunction<int8_t>> kVariants<int8_t>[] = {
    {kAvx512Vnni, avx512::Int8DecodeVariant},
    {0, PortableDecodeVariant<int8_t>},
};
#endif

// Scores of the variants for int8_t are of units of their own until they are softened: where they are bent in between,
// the portable variant takes them.
template <typename T>
const DecodeVariant<T>& VariantOf(const DecodeAttention<T>& work) {
  if (std::is_same_v<T, int8_t> && work.cap > 0) return PortableDecodeVariant<T>();
  return work.head_dim % kRowUnit<T> == 0 ? BestVariant<kVariants<T>>()() : PortableDecodeVariant<T>();
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

constexpr int64_t kMostTiles = kKeyBlock / kKeyLanes;  // of a block
constexpr int64_t kTilesAtOnce = 2 * kMostTiles;
constexpr int64_t kMostAhead = kMostTiles;
// Soon: a page ahead. Without it the order of reading is another one than processors expect, which costs 5 to 15 %.
constexpr int64_t kBytesAhead = 4096;

// Of short heads half as many: in int8, blocks of 64 keys took 14 % less time than those of 128. In fp32 it is the
// other way round.
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
  bool whole[kTilesAtOnce];    // kKeyLanes keys side by side
  int64_t first;               // token
  int64_t tiles;
};

// Rows of a tile that is not whole, copied side by side.
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

// The factors of tiles that were found some time ago: they have been fetched since.
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

// The tile of the keys from `token` on; where they end, the last one again.
template <typename T>
void Gather(const DecodeAttention<T>& work, const HeadRows<T>& rows, int64_t token, int64_t end, GatheredTile<T>& to) {
  for (int64_t i = 0; i < kKeyLanes; ++i) {
    const int64_t row = rows.At(std::min(token + i, end - 1)).first;
    std::copy_n(work.keys + row * work.head_dim, work.head_dim, to.keys + i * work.head_dim);
    std::copy_n(work.values + row * work.head_dim, work.head_dim, to.values + i * work.head_dim);
  }
}

// `group` query heads of the group of `head`, from `member` on, against some keys.
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
