// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/kv_cache.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "lib/aten/random.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {
namespace {

constexpr float kMostSteps = 127;

at::Tensor Allocate(const workload::Transformer& shape, int64_t batch, int64_t capacity,
                    const at::TensorOptions& options) {
  const observe::Range range(observe::kKvCacheRange);
  // Zeros touch every page before tokens are timed.
  return at::zeros({static_cast<int64_t>(shape.layers), batch, static_cast<int64_t>(shape.KvHeads()), capacity,
                    static_cast<int64_t>(shape.HeadDim())},
                   options);
}

at::Tensor AllocateScales(const at::Tensor& rows) {
  const observe::Range range(observe::kKvCacheRange);
  return at::zeros(rows.sizes().slice(0, 4), rows.options().dtype(at::kFloat));
}

// The view of a part in keys, values or their scales.
at::Tensor PartOf(const at::Tensor& all, const KvCache::Part& part) {
  return all[part.layer].narrow(0, part.first, part.sequences).narrow(2, part.begin, part.tokens);
}

void WriteRounded(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales) {
  const at::Tensor exact = x.to(at::kFloat);
  const at::Tensor scale = exact.abs().amax(-1, /*keepdim=*/true).div_(kMostSteps);
  // Zeros have a scale of zero, and codes of zero.
  const at::Tensor steps = exact.div(scale.clamp_min(std::numeric_limits<float>::min())).round_();
  const at::Tensor not_finite = scale.isfinite().logical_not_();
  codes.copy_(steps.masked_fill(not_finite, 0));
  scales.copy_(scale.masked_fill(not_finite, std::numeric_limits<float>::quiet_NaN()).squeeze(-1));
}

}  // namespace

KvCache::KvCache(const workload::Transformer& shape, int64_t batch, int64_t tokens, const at::TensorOptions& type,
                 bool in_8_bits)
    : keys(Allocate(shape, batch, tokens, in_8_bits ? type.dtype(at::kChar) : type)),
      values(Allocate(shape, batch, tokens, keys.options())),
      key_scales(in_8_bits ? AllocateScales(keys) : at::Tensor()),
      value_scales(in_8_bits ? AllocateScales(values) : at::Tensor()),
      options(type),
      capacity(tokens),
      lengths(static_cast<std::size_t>(batch)) {}

int64_t KvCache::length() const {
  const int64_t first = lengths.front();
  TORCH_CHECK(std::ranges::all_of(lengths, [&](int64_t length) { return length == first; }),
              "the sequences have different lengths");
  return first;
}

void KvCache::SetLength(int64_t length) { std::ranges::fill(lengths, length); }

void KvCache::CheckRoom(int64_t before, int64_t tokens) const {
  TORCH_CHECK(before + tokens <= capacity, "the cache holds ", capacity, " tokens");
}

void KvCache::Check(const std::vector<Piece>& pieces, int64_t tokens) const {
  int64_t last = -1;
  int64_t sum = 0;
  for (const auto& [sequence, own] : pieces) {
    TORCH_CHECK(sequence > last && sequence < static_cast<int64_t>(lengths.size()),
                "pieces must be of different sequences, in ascending order");
    TORCH_CHECK(own > 0, "a piece has at least one token");
    CheckRoom(lengths[static_cast<std::size_t>(sequence)], own);
    last = sequence;
    sum += own;
  }
  TORCH_CHECK(!pieces.empty() && sum == tokens, "the pieces have ", sum, " tokens, and ", tokens, " are given");
}

void KvCache::FillRandom(int64_t new_length, uint64_t seed) {
  TORCH_CHECK(new_length <= capacity);
  roofbench::FillRandom(keys, seed, 1);
  roofbench::FillRandom(values, seed + 1, 1);
  if (Is8Bits()) {
    constexpr float kStep = 1.0F / 32;  // random codes have a deviation of 32
    key_scales.fill_(kStep);
    value_scales.fill_(kStep);
  }
  SetLength(new_length);
}

void KvCache::Reorder(const std::vector<int64_t>& from) {
  std::vector<int64_t> changed;
  std::vector<int64_t> sources;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] == static_cast<int64_t>(i)) continue;
    changed.push_back(static_cast<int64_t>(i));
    sources.push_back(from[i]);
  }
  if (changed.empty()) return;
  const auto whole = keys.options().dtype(at::kLong);
  const at::Tensor to = at::tensor(changed, whole);
  const at::Tensor source = at::tensor(sources, whole);
  for (const at::Tensor& all : {keys, values, key_scales, value_scales}) {
    if (!all.defined()) continue;
    // Copies one layer at a time, to save memory.
    for (int64_t layer = 0; layer < all.size(0); ++layer) {
      at::Tensor read = all[layer].narrow(2, 0, length());
      read.index_copy_(0, to, read.index_select(0, source));
    }
  }
}

KvCache KvCache::Of(int64_t first, int64_t sequences) const {
  KvCache made = *this;
  for (at::Tensor* all : {&made.keys, &made.values, &made.key_scales, &made.value_scales}) {
    if (all->defined()) *all = all->narrow(1, first, sequences);
  }
  made.lengths.assign(lengths.begin() + first, lengths.begin() + first + sequences);
  return made;
}

absl::Status KvCache::CheckRounding(const KvCache& exact, int64_t tokens, double tolerance) const {
  constexpr double kHalf = 0.5;
  for (int64_t layer = 0; layer < keys.size(0); ++layer) {
    for (const auto& [name, codes, scales, unrounded] :
         {std::tuple("key", &keys, &key_scales, &exact.keys), {"value", &values, &value_scales, &exact.values}}) {
      const Part part{.layer = layer, .sequences = codes->size(1), .tokens = tokens};
      const at::Tensor expected = PartOf(*unrounded, part);
      const at::Tensor step = PartOf(*scales, part).unsqueeze(-1);
      const at::Tensor error = PartOf(*codes, part).to(at::kFloat).mul_(step).sub_(expected).abs_();
      const at::Tensor before = expected.abs().add_(expected.square().mean().sqrt()).mul_(tolerance);
      // A NaN compares as false.
      const at::Tensor wrong = error.le(before.add_(step, kHalf)).logical_not_();
      const int64_t count = wrong.sum().item<int64_t>();
      if (count == 0) continue;
      return absl::DataLossError(absl::StrCat("wrong 8-bit cache: ", count, " of the ", wrong.numel(), " elements of ",
                                              name, "s in layer ", layer,
                                              " are not the nearest steps to their exact values"));
    }
  }
  return absl::OkStatus();
}

double KvCache::LargestChange(const KvCache& other, int64_t tokens) const {
  double largest = 0;
  for (int64_t layer = 0; layer < keys.size(0); ++layer) {
    const Part part{.layer = layer, .sequences = keys.size(1), .tokens = tokens};
    for (const auto& [own, others] : {std::pair(&keys, &other.keys), {&values, &other.values}}) {
      const at::Tensor from = PartOf(*own, part);
      const at::Tensor unit = from.abs().add_(from.square().mean().sqrt());
      largest = std::max(largest, PartOf(*others, part).sub(from).abs_().div_(unit).max().item<double>());
    }
  }
  return largest;
}

void KvCache::Write(const Part& part, const at::Tensor& k, const at::Tensor& v) const {
  if (!Is8Bits()) {
    PartOf(keys, part).copy_(k);
    PartOf(values, part).copy_(v);
    return;
  }
  WriteRounded(k, PartOf(keys, part), PartOf(key_scales, part));
  WriteRounded(v, PartOf(values, part), PartOf(value_scales, part));
}

std::pair<at::Tensor, at::Tensor> KvCache::Read(const Part& part) const {
  const at::Tensor k = PartOf(keys, part);
  const at::Tensor v = PartOf(values, part);
  if (!Is8Bits()) return {k, v};
  const auto made = [&](const at::Tensor& codes, const at::Tensor& scales) {
    return codes.to(at::kFloat).mul_(PartOf(scales, part).unsqueeze(-1)).to(options.dtype());
  };
  return {made(k, key_scales), made(v, value_scales)};
}

float RoundTo8Bits(const float* x, int64_t dim, int8_t* codes) {
  float largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < dim; ++i) {
    largest = std::max(largest, std::abs(x[i]));
    finite = finite && std::isfinite(x[i]);
  }
  if (!finite) {
    std::fill_n(codes, dim, int8_t{0});
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = largest / kMostSteps;
  const float step = std::max(scale, std::numeric_limits<float>::min());
  std::transform(x, x + dim, codes, [&](float value) { return static_cast<int8_t>(std::nearbyint(value / step)); });
  return scale;
}

}  // namespace roofbench::models
