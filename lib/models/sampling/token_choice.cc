// SPDX-License-Identifier: Apache-2.0
#include "lib/models/sampling/token_choice.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace roofbench::models {
namespace {

constexpr char kNotFinite[] = "the model's logits are not all finite: no token can be chosen by them";

// A number in [0, 1).
double Draw(kernels::SplitMix64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

// By their bits, without a branch: vectors look through a vocabulary in microseconds.
bool AreFinite(const float* values, int64_t count) {
  constexpr uint32_t kExponent = 0x7f800000;  // all of it set: an infinity or a NaN
  uint32_t any = 0;
  for (int64_t i = 0; i < count; ++i) {
    any |= static_cast<uint32_t>((std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent);
  }
  return any == 0;
}

}  // namespace

void CheckFinite(const float* logits, int64_t count) { TORCH_CHECK(AreFinite(logits, count), kNotFinite); }

TokenChooser::TokenChooser(const ChoiceOptions& options, int64_t vocab)
    : options_(options),
      random_(options.seed),
      order_(static_cast<std::size_t>(vocab)),
      weights_(static_cast<std::size_t>(std::min(options.top_k, vocab))) {}

int64_t TokenChooser::Choose(const float* logits) {
  const auto vocab = static_cast<int64_t>(order_.size());
  // A NaN has no place in an order, and sorting by one would leave the memory.
  CheckFinite(logits, vocab);
  if (weights_.size() <= 1) return std::max_element(logits, logits + vocab) - logits;
  std::iota(order_.begin(), order_.end(), 0);
  const auto chosen = order_.begin() + static_cast<int64_t>(weights_.size());
  const auto before = [&](int64_t a, int64_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  if (chosen != order_.end()) std::nth_element(order_.begin(), chosen, order_.end(), before);
  std::sort(order_.begin(), chosen, before);
  double sum = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    sum += std::exp((logits[order_[i]] - logits[order_.front()]) / options_.temperature);
    weights_[i] = sum;
  }
  const double drawn = Draw(random_) * sum;
  const auto found = std::upper_bound(weights_.begin(), weights_.end() - 1, drawn);
  return order_[static_cast<std::size_t>(found - weights_.begin())];
}

DeviceTokenChooser::DeviceTokenChooser(const ChoiceOptions& options, int64_t most, int64_t batch, at::Device device)
    : options_(options), sums_(at::zeros({most}, at::TensorOptions(device).dtype(at::kFloat))) {
  const at::Tensor draws = at::empty({most, batch}, at::kFloat);
  kernels::SplitMix64 random(options.seed);
  for (int64_t i = 0; i < draws.numel(); ++i) draws.data_ptr<float>()[i] = static_cast<float>(Draw(random));
  draws_ = draws.to(device);
}

void DeviceTokenChooser::Choose(const at::Tensor& logits, int64_t index, const at::Tensor& ids,
                                const std::optional<at::Tensor>& sequences) {
  // An infinity or a NaN among them makes the sum one.
  at::Tensor sum = sums_.select(0, index);
  at::sum_out(sum, logits, at::IntArrayRef({0, 1}));
  at::Tensor chosen = ids;
  if (options_.top_k <= 1) {
    at::argmax_out(chosen, logits, 1);
    return;
  }
  const int64_t candidates = std::min(options_.top_k, logits.size(1));
  const auto [top, tokens] = at::topk(logits, candidates, 1);
  const at::Tensor weights = top.sub(top.narrow(1, 0, 1)).div_(options_.temperature).exp_().cumsum(1);
  const at::Tensor draws = draws_.select(0, index);
  const at::Tensor own = sequences ? draws.index_select(0, *sequences) : draws;
  const at::Tensor drawn = own.unsqueeze(1).mul(weights.narrow(1, candidates - 1, 1));
  const at::Tensor rank = weights.le(drawn).sum(1, /*keepdim=*/true).clamp_max_(candidates - 1);
  chosen = chosen.unsqueeze(1);
  at::gather_out(chosen, tokens, 1, rank);
}

void DeviceTokenChooser::Check(int64_t count) const {
  TORCH_CHECK(sums_.narrow(0, 0, count).isfinite().all().item<bool>(), kNotFinite);
}

}  // namespace roofbench::models
