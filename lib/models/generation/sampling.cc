// SPDX-License-Identifier: Apache-2.0
#include "lib/models/generation/sampling.h"

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
#include <utility>

#include "absl/strings/str_cat.h"

namespace roofbench::models {
namespace {

constexpr char kNotFinite[] = "the model's logits are not all finite, so no token can be chosen";

// A number in [0, 1).
double Draw(kernels::SplitMix64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

// By their bits, without branches, so that it vectorizes.
bool AreFinite(const float* values, int64_t count) {
  constexpr uint32_t kExponent = 0x7f800000;  // all bits set: an infinity or a NaN
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
  // Sorting NaNs would access memory out of bounds.
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
  // An infinity or a NaN among the logits makes the sum not finite.
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

namespace {

double Largest(const Candidates& candidates) {
  return std::max_element(candidates.begin(), candidates.end(),
                          [](const Candidate& a, const Candidate& b) { return a.weight < b.weight; })
      ->weight;
}

bool IsLikelier(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

absl::Status OutOfRange(const char* flag, double value, const char* expected) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, ": expected ", expected));
}

// The range keeps fp32 logits finite.
bool IsFactor(double value) { return value >= 1e-6 && value <= 1e6; }

}  // namespace

absl::Status CheckSampling(const SamplingOptions& options) {
  if (!IsFactor(options.temperature)) {
    return OutOfRange("temperature", options.temperature, "a number from 1e-6 to 1e6 (--top_k=1 takes the likeliest)");
  }
  if (options.top_k < 0) {
    return OutOfRange("top_k", static_cast<double>(options.top_k), "a whole number from 0 (of all tokens) on");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return OutOfRange("top_p", options.top_p, "a number above 0, to 1 (of all tokens)");
  }
  if (!(options.min_p >= 0 && options.min_p <= 1)) {
    return OutOfRange("min_p", options.min_p, "a number from 0 (of all tokens) to 1");
  }
  if (!IsFactor(options.repetition_penalty)) {
    return OutOfRange("repetition_penalty", options.repetition_penalty, "a number from 1e-6 to 1e6 (1: no penalty)");
  }
  return absl::OkStatus();
}

void PenalizeRepetition(Candidates& candidates, const std::vector<uint8_t>& seen, double penalty) {
  for (Candidate& one : candidates) {
    if (seen[static_cast<std::size_t>(one.token)] == 0) continue;
    one.weight = one.weight < 0 ? one.weight * penalty : one.weight / penalty;
  }
}

void DivideByTemperature(Candidates& candidates, double temperature) {
  for (Candidate& one : candidates) one.weight /= temperature;
}

void KeepTopK(Candidates& candidates, int64_t k) {
  if (k >= static_cast<int64_t>(candidates.size())) return;
  const auto last = candidates.begin() + (k - 1);
  std::nth_element(candidates.begin(), last, candidates.end(), IsLikelier);
  const double least = last->weight;
  std::erase_if(candidates, [&](const Candidate& one) { return one.weight < least; });
}

void KeepTopP(Candidates& candidates, double p) {
  std::sort(candidates.begin(), candidates.end(), IsLikelier);
  const double largest = candidates.front().weight;
  double sum = 0;
  for (const Candidate& one : candidates) sum += std::exp(one.weight - largest);
  // Keep tokens until their total reaches p.
  double likelier = 0;
  std::size_t kept = 0;
  while (kept < candidates.size() && likelier < p * sum) likelier += std::exp(candidates[kept++].weight - largest);
  candidates.resize(std::max<std::size_t>(kept, 1));
}

void KeepMinP(Candidates& candidates, double p) {
  const double largest = Largest(candidates);
  std::erase_if(candidates, [&](const Candidate& one) { return std::exp(one.weight - largest) < p; });
}

void Distribution(const SamplingOptions& options, const float* logits, const std::vector<uint8_t>& seen,
                  Candidates& candidates) {
  candidates.resize(seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) candidates[i] = {static_cast<int64_t>(i), logits[i]};
  if (options.repetition_penalty != 1) PenalizeRepetition(candidates, seen, options.repetition_penalty);
  DivideByTemperature(candidates, options.temperature);
  if (options.top_k > 0) KeepTopK(candidates, options.top_k);
  if (options.top_p < 1) KeepTopP(candidates, options.top_p);
  if (options.min_p > 0) KeepMinP(candidates, options.min_p);
  const double largest = Largest(candidates);
  double sum = 0;
  for (Candidate& one : candidates) sum += one.weight = std::exp(one.weight - largest);
  for (Candidate& one : candidates) one.weight /= sum;
}

int64_t DrawToken(const Candidates& distribution, kernels::SplitMix64& random) {
  double left = Draw(random);
  for (const Candidate& one : distribution) {
    if (left < one.weight) return one.token;
    left -= one.weight;
  }
  return distribution.back().token;  // the probabilities add up to 1 but for rounding
}

TokenSampler::TokenSampler(const SamplingOptions& options, int64_t vocab, std::vector<TokenIds> texts)
    : options_(options),
      prompts_(std::move(texts)),
      seen_(prompts_.size(), std::vector<uint8_t>(static_cast<std::size_t>(vocab))) {
  candidates_.reserve(static_cast<std::size_t>(vocab));
  Restart();
}

void TokenSampler::Restart() {
  random_ = kernels::SplitMix64(options_.seed);
  for (std::size_t text = 0; text < prompts_.size(); ++text) {
    std::fill(seen_[text].begin(), seen_[text].end(), 0);
    for (const int64_t token : prompts_[text]) seen_[text].at(static_cast<std::size_t>(token)) = 1;
  }
}

int64_t TokenSampler::Choose(std::size_t text, const float* logits) {
  std::vector<uint8_t>& seen = seen_[text];
  CheckFinite(logits, static_cast<int64_t>(seen.size()));
  Distribution(options_, logits, seen, candidates_);
  const int64_t token = DrawToken(candidates_, random_);
  seen[static_cast<std::size_t>(token)] = 1;
  return token;
}

}  // namespace roofbench::models
