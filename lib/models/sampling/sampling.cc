// SPDX-License-Identifier: Apache-2.0
#include "lib/models/sampling/sampling.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace roofbench::models {
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

// So that no logit of fp32 becomes infinite.
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

void PenaliseRepetition(Candidates& candidates, const std::vector<uint8_t>& seen, double penalty) {
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
  // One that the likelier ones leave something to is among the fewest.
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
  if (options.repetition_penalty != 1) PenaliseRepetition(candidates, seen, options.repetition_penalty);
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
  double left = static_cast<double>(random() >> 11) * 0x1p-53;  // from 0, below 1
  for (const Candidate& one : distribution) {
    if (left < one.weight) return one.token;
    left -= one.weight;
  }
  return distribution.back().token;  // the probabilities add up to 1 but for rounding
}

}  // namespace roofbench::models
